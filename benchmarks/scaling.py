"""What asynchronous workers and several devices do.

    python -m benchmarks.scaling async --data-dir DIR          4 workers on CASP against as many synchronous steps
    python -m benchmarks.scaling kills --data-dir DIR          the same with 20 workers killed on the way
    XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m benchmarks.scaling devices
                                                                operations and messages per device, from the program
    python -m benchmarks.scaling processes                     seconds per step with 1, 2, 4, … processes, a core each
    python -m benchmarks.scaling page                          write the numbers into docs/measurements/scaling.md

Each part writes its section of docs/results/scaling.json. `devices` and `processes` need nothing but scax's own
requirements.
"""

import argparse
import json
import math
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import time

import jax
import numpy as np

import scax
from benchmarks import pages
from scax.cli.launch import KEPT_MEMORY
from scax.sca import _step

#: The messages of the exact step on the network of `large`, in numbers of its weights: δ, and inputs and sensitivities.
LARGE_MESSAGES = 1.9
RESULTS = pathlib.Path(__file__).parent.parent / "docs" / "results" / "scaling.json"
PAGE = RESULTS.parent.parent / "measurements" / "scaling.md"


def record(section: str, value: dict) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known[section] = value | {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    RESULTS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    print(json.dumps(value, indent=1))


def casp(data_dir):
    from scax.reproduce.configs import TABLE2
    from scax.reproduce.tables import load

    row = next(row for row in TABLE2 if row.dataset == "casp")
    net = scax.MLP(row.widths, activation="tanh", output="tanh")
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    return net, problem, load(row, data_dir)


def asynchronous(data_dir, steps: int, seeds: int, kills: int) -> None:
    net, problem, (x, y) = casp(data_dir)
    runs = []
    for seed in range(seeds):
        params, key = net.init(jax.random.key(seed)), jax.random.key(100 + seed)
        sca = scax.SCA(problem)
        alone = scax.train(sca, params, (x, y), steps=steps, batch_size=20, key=key, records=1)
        killed = 0
        chance = random.Random(seed)

        def kill(crew, chance=chance):
            nonlocal killed
            if killed < kills and crew.done >= steps * (killed + 1) / (kills + 2):
                import ray

                killed += 1
                ray.kill(chance.choice(crew.workers))

        began = time.perf_counter()
        spread = scax.train_async(
            sca, params, (x, y), steps=steps, workers=4, batch_size=20, key=key, callback=kill if kills else None
        )
        together, apart = float(alone.history["objective"][-1]), float(spread.history["objective"][-1])
        told = {name: float(spread.history[name][0]) for name in ("deaths", "refused", "oldest", "age")}
        runs.append({"synchronous": together, "asynchronous": apart, "killed": killed, **told})
        runs[-1] |= {"excess": apart / together - 1, "seconds": time.perf_counter() - began}
        print(runs[-1], flush=True)
    excess = [run["excess"] for run in runs]
    record(
        "kills" if kills else "async",
        {"steps": steps, "workers": 4, "mean excess": float(np.mean(excess)), "worst": max(excess), "runs": runs},
    )


def large(widths: tuple[int, ...], rows: int):
    """A network and a batch on which a step is worth sharing."""
    net = scax.MLP(widths, activation="tanh")
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    x = np.random.default_rng(0).normal(size=(rows, widths[0])).astype(np.float32)
    params = net.init(jax.random.key(0))
    return problem, params, problem.ready(params, (x, np.sin(x[:, 0])))


def devices(widths: tuple[int, ...], rows: int) -> None:
    """Operations of one step on each device and its messages, counted in the compiled program: no clock, no load."""
    problem, params, batch = large(widths, rows)
    found = {}
    for solver in ("structured", "sample-space"):
        for scheme in ("exact", "data"):
            for count in (1, 2, 4, 8):
                sca = scax.SCA(problem, damping=1.0, solver=solver, parallel=scax.Parallel(count, scheme=scheme))
                program = _step.lower(sca, sca.init(params), batch).compile()
                messages = re.findall(COLLECTIVE, program.as_text())
                told = {"operations": program.cost_analysis()["flops"], "messages": len(messages)}
                shapes = [shape for message in messages for shape in re.findall(r"\w+\[([\d,]*)\]", message)]
                told["numbers"] = sum(math.prod(int(d) for d in shape.split(",") if d) for shape in shapes)
                found.setdefault(f"{scheme}, {solver}", {})[count] = told
                print(scheme, solver, count, told, flush=True)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    record("devices", {"widths": widths, "weights": size, "rows": rows, "schemes": found})


def processes(widths: tuple[int, ...], rows: int, counts: list[int], steps: int, rounds: int) -> None:
    """Seconds per step with P processes over loopback, each on a core of its own; one process takes the plain step.

    "apart" is what this machine could do at best: P processes that know nothing of each other, each with plain steps on
    a P-th of the rows, the slowest of them. All numbers of processes are measured in turn, `rounds` times.
    """
    cores = one_thread_each()
    counts = [count for count in counts if count <= len(cores)]
    print(f"cores: {cores}", flush=True)
    found: dict[str, dict] = {}
    for _ in range(rounds):
        one = crew("exact", 1, cores, widths, rows, steps)  # the plain step, whatever the scheme
        for scheme in ("exact", "data", "apart"):
            for count in counts:
                told = one if count == 1 else crew(scheme, count, cores, widths, rows, steps)
                told["efficiency"] = one["median"] / count / told["median"]
                found.setdefault(scheme, {}).setdefault(count, []).append(told)
                print(scheme, count, {k: round(v, 4) for k, v in told.items() if k != "seconds"}, flush=True)
    floor = crew("exact", 1, cores, widths, 8, steps)["median"]  # with hardly any rows
    told = {"widths": widths, "rows": rows, "steps": steps, "rounds": rounds, "floor": floor}
    middle = lambda runs: {key: float(np.median([run[key] for run in runs])) for key in runs[0] if key != "seconds"}
    schemes = {scheme: {p: middle(runs) for p, runs in by.items()} for scheme, by in found.items()}
    record(f"processes, {len(cores)} cores", told | {"schemes": schemes})


def crew(scheme: str, count: int, cores: list[int], widths, rows: int, steps: int) -> dict:
    """Start the processes of one measurement; each one's last line is its result, and the slowest's is theirs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    rows = -(-rows // count) if scheme == "apart" else rows
    command = [sys.executable, "-m", "benchmarks.scaling", "worker", "--steps", str(steps), "--rows", str(rows)]
    command += ["--widths", *map(str, widths), "--scheme", scheme, "--address", address, "--counts", str(count)]
    environment = os.environ | KEPT_MEMORY | {"JAX_PLATFORMS": "cpu", "OPENBLAS_NUM_THREADS": "1"}
    members = [
        subprocess.Popen(
            [*command, "--number", str(i)],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            preexec_fn=lambda core=cores[i]: os.sched_setaffinity(0, {core}),
        )
        for i in range(count)
    ]
    try:
        said = [member.communicate(timeout=900)[0] for member in members]
        if any(member.returncode for member in members):
            raise RuntimeError(f"a process of {scheme} with {count} ended with an error: see above.")
        return max((json.loads(out.strip().splitlines()[-1]) for out in said), key=lambda told: told["median"])
    finally:
        for member in members:
            member.kill()
            member.wait()


def worker(scheme: str, count: int, number: int, address: str, widths: tuple[int, ...], rows: int, steps: int) -> None:
    """One process of a measurement: the median of some steps, of an all-gather of as many numbers as weights."""
    parallel = None
    if count > 1 and scheme != "apart":
        jax.distributed.initialize(address, count, number, coordinator_bind_address=address)
        parallel = scax.Parallel(scheme=scheme)
    problem, params, batch = large(widths, rows)
    sca = scax.SCA(problem, damping=1.0, solver="structured", parallel=parallel)
    state = sca.init(params)
    if parallel is not None:
        state, batch = parallel.place((state, batch))
    step = jax.jit(lambda state, batch: sca.step(state, batch), donate_argnums=0)
    times, busy, size = [], [], state.w.shape[0]
    # processes that do not wait for each other take more steps, so that each has the others beside it
    for _ in range(steps + 2 if scheme != "apart" else steps * count + 2):
        began, worked = time.perf_counter(), time.process_time()
        state, info = jax.block_until_ready(step(state, batch))
        times.append(time.perf_counter() - began)
        busy.append(time.process_time() - worked)
    told = {"median": float(np.median(times[2:])), "least": min(times[2:]), "seconds": times[2:]}
    told["processor"] = float(np.median(busy[2:]))  # what waiting, and other programs, do not count in
    told |= {"loss": float(info.loss), "message": 0.0}
    if parallel is not None:
        shape = (count * -(-size // count),)
        gather = jax.jit(
            jax.shard_map(
                lambda a: jax.lax.all_gather(a, parallel.axis, tiled=True),
                mesh=parallel.mesh,
                in_specs=jax.P(parallel.axis),
                out_specs=jax.P(),
                check_vma=False,
            )
        )
        part = parallel.by_rows(np.ones(shape[0] // count, np.float32))
        waits = []
        for _ in range(steps + 2):
            began = time.perf_counter()
            jax.block_until_ready(gather(part))
            waits.append(time.perf_counter() - began)
        told["message"] = float(np.median(waits[2:]))
    print(json.dumps(told), flush=True)


def one_thread_each() -> list[int]:
    """The cores to use, one of each pair of hardware threads first."""
    cores = sorted(os.sched_getaffinity(0))
    seen, chosen, others = set(), [], []
    for core in cores:
        path = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        pair = path.read_text().strip() if path.exists() else str(core)
        (others if pair in seen else chosen).append(core)
        seen.add(pair)
    return chosen + others


#: a collective in compiled HLO: the shape, or shapes, of what it gives
COLLECTIVE = r"= (.*?) (?:all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("


def page() -> None:
    """The tables of docs/measurements/scaling.md, from the results file."""
    found = json.loads(RESULTS.read_text())
    tables = {"devices": _devices(found["devices"]), "async": _asynchronous(found)}
    measured = [value for key, value in found.items() if key.startswith("processes")]
    if measured:
        tables["processes"] = _processes(measured)
    pages.write_tables(PAGE, tables)


def _devices(found: dict) -> str:
    lines = [
        "`XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m benchmarks.scaling devices`: a "
        f"{'/'.join(map(str, found['widths']))} network ({found['weights']:,} weights), L = {found['rows']}, "
        "squared loss. "
        "Operations on each device as XLA counts them (a multiply-add is two; the m×m factorization is not in), "
        "and efficiency = operations on one device / (P × operations on each of P): what scaling would be if messages "
        "cost nothing and each device had a processor of its own.",
        "",
        "| scheme, form of J | P | operations each | efficiency | messages | numbers in them |",
        "|---|---|---|---|---|---|",
    ]
    for scheme, counts in found["schemes"].items():
        one = counts["1"]["operations"]
        for p, told in counts.items():
            lines.append(
                f"| {scheme} | {p} | {told['operations']:.3g} | {one / int(p) / told['operations']:.0%} | "
                f"{told['messages']} | {told['numbers']:,} |"
            )
    return "\n".join(lines)


def _processes(measured: list[dict]) -> str:
    lines = [
        "`python -m benchmarks.scaling processes`: the same network and batch, P processes over loopback with one "
        "core each, the median of "
        f"{measured[0]['steps']} steps and of some rounds in which all P are measured in turn. One process takes the "
        "plain step; efficiency = its seconds / (P × seconds with P). Processor: seconds in which the slowest process "
        "did not wait. Message: an all-gather of as many numbers as there are weights, alone. The model of `exact` is "
        "the step on 8 rows (reading and writing weights, which no scheme shares), a P-th of the rest, and "
        f"{LARGE_MESSAGES} messages. `apart` is no scheme: P processes that know nothing of each other, each with "
        "plain steps on a P-th of the rows, the slowest of them: what the machine itself allows, and more than a "
        "scheme could, for their Gram matrices are a P²-th of the whole one.",
    ]
    for found in measured:
        lines += ["", *_machine(found)]
    return "\n".join(lines)


def _machine(found: dict) -> list[str]:
    most = max(int(p) for counts in found["schemes"].values() for p in counts)
    busy = "" if found["load"] < most + 1 else ", so that other programs had their share and seconds say little"
    lines = [
        f"{found['cores']} cores (load average {found['load']}{busy}), {found['rounds']} rounds, "
        f"{found['floor']:.3f} seconds on 8 rows:",
        "",
        "| scheme | P | seconds per step | efficiency | processor | message | model |",
        "|---|---|---|---|---|---|---|",
    ]
    reached = {}
    for scheme, counts in found["schemes"].items():
        one = counts["1"]["median"]
        for p, told in counts.items():
            efficiency = reached[scheme, p] = told["efficiency"]
            model = found["floor"] + (one - found["floor"]) / int(p) + LARGE_MESSAGES * told["message"]
            lines.append(
                f"| {scheme} | {p} | {told['median']:.3f} | {efficiency:.0%} | {told['processor']:.3f} | "
                + (f"{told['message']:.3f} | " if told["message"] else "– | ")
                + (f"{model:.3f} |" if scheme == "exact" else "– |")
            )
    aims = [(p, aim) for p, aim in (("2", 0.8), ("8", 0.6)) if ("exact", p) in reached]
    verdicts = [
        f"{aim:.0%} at P = {p}, which is {'reached' if reached['exact', p] >= aim else 'missed'} "
        f"({reached['exact', p]:.0%})"
        for p, aim in aims
    ]
    return [*lines, "", f"Aimed at with `exact`: {'; '.join(verdicts)}."]


def _asynchronous(found: dict) -> str:
    lines = [
        "`python -m benchmarks.scaling async` and `… kills`: CASP, 9/10/6/1, batches of 20, 4 workers; the "
        "objective on all rows after as many changes as the synchronous method takes steps, both from the same start.",
        "",
        "| | steps | seed | synchronous | asynchronous | excess | mean age | oldest | killed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in ("async", "kills"):
        for seed, run in enumerate(found[name]["runs"] if name in found else []):
            lines.append(
                f"| {name} | {found[name]['steps']} | {seed} | {run['synchronous']:.4f} | {run['asynchronous']:.4f} | "
                f"{run['excess']:+.1%} | {run['age']:.1f} | {run['oldest']:.0f} | {run['killed']} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["async", "kills", "devices", "processes", "worker", "page"])
    parser.add_argument("--data-dir", type=pathlib.Path)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--widths", type=int, nargs="+", default=[1000, 1500, 1500, 800, 1])
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8], help="processes: how many to try")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scheme", default="exact")
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--address")
    args = parser.parse_args()
    if args.part == "page":
        page()
    elif args.part == "devices":
        devices(tuple(args.widths), args.rows)
    elif args.part == "processes":
        processes(tuple(args.widths), args.rows, args.counts, args.steps or 9, args.rounds)
    elif args.part == "worker":
        worker(args.scheme, args.counts[0], args.number, args.address, tuple(args.widths), args.rows, args.steps)
    else:
        asynchronous(args.data_dir, args.steps or 2000, args.seeds, 20 if args.part == "kills" else 0)


if __name__ == "__main__":
    main()
