"""scax launch: a command of scax as several processes on this machine."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Annotated, Any

import typer

from . import interrupts
from .errors import LAUNCHED, LOST, UserError, fail
from .options import absurd

#: An environment in which large arrays stay with a process between steps (glibc): all of them in one arena, of which
#: nothing is given back. Fresh pages at every step cost as much as several passes over the weights.
KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
}
GRACE = 5.0  # seconds in which processes may end by themselves after one of them has died


def register(cli: typer.Typer) -> None:
    cli.command(
        "launch",
        short_help="Run train or resume as several processes.",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )(launch)


def launch(
    processes: Annotated[int, typer.Option("-n", help="Processes; each gets an equal share of the cores.")],
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="After --: train or resume, and its options.")
    ],
) -> None:
    """Run `scax train` or `scax resume` as several processes that take every step together."""
    absurd("n", processes, 1, 1024)
    if command[0] not in ("train", "resume"):
        raise UserError(f"scax launch runs train and resume, not {command[0]!r}: scax launch -n 2 -- train TABLE …")
    if "--hosts" in command:
        raise UserError("--hosts is for processes started by hand: leave it out, scax launch sets it.")
    address = f"127.0.0.1:{_free_port()}"
    with tempfile.TemporaryFile("w+") as quiet:
        crew = [_start(i, processes, address, command, quiet) for i in range(processes)]
        try:
            code = _watch(crew, quiet)
        finally:
            for process in crew:
                if process.poll() is None:
                    process.kill()
                process.wait()
    raise SystemExit(code)


def _start(i: int, processes: int, address: str, command: list[str], quiet: Any) -> subprocess.Popen:
    """Process i of the run; what others than the first say is kept aside."""
    flags = ["--hosts", address, "--processes", str(processes), "--process-id", str(i)]
    cores = _cores(i, processes)
    # one GPU cannot be shared by several processes, and one process already drives all of a machine's
    environment = {"JAX_PLATFORMS": "cpu"} | KEPT_MEMORY | os.environ | {LAUNCHED: "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "scax", command[0], *flags, *command[1:]],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=None if i == 0 else subprocess.DEVNULL,
        stderr=None if i == 0 else quiet,
        start_new_session=True,  # Ctrl-C reaches this process alone, which hands it on
        preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores),
    )


def _watch(crew: list[subprocess.Popen], quiet: Any) -> int:
    """Wait for all processes; if one dies, end the others and say so."""
    pass_on = lambda number, _frame: crew[0].send_signal(number)
    before = {number: signal.signal(number, pass_on) for number in interrupts.handled()}
    try:
        deadline = None
        while any(process.poll() is None for process in crew):
            if any(process.poll() not in (None, 0) for process in crew):
                deadline = deadline or time.monotonic() + GRACE
                if time.monotonic() > deadline:
                    break
            time.sleep(0.1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    codes = [process.poll() for process in crew]
    if codes[0] is not None and codes[0] > 0 and codes[0] != LOST:
        return codes[0]  # it has said why itself
    dead = next((i for i, code in enumerate(codes) if code not in (None, 0, LOST)), None)
    if dead is None:
        return max(code or 0 for code in codes)
    code = codes[dead] or 0
    how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
    quiet.seek(0)
    said = [line.removeprefix("scax: ").strip() for line in quiet.read().splitlines() if line.startswith("scax: ")]
    why = "" if code < 0 or not said else f": {said[0].rstrip('.')}"
    fail(
        f"process {dead} of {len(crew)} {how}{why}, so the others were ended. All up to the last checkpoint is saved: "
        "go on with scax resume, with any number of processes.",
        1,
    )


def _cores(i: int, processes: int) -> set[int] | None:
    """The cores of process i; None where there are fewer cores than processes, or where a system cannot pin."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // processes
    return set(cores[i * each : (i + 1) * each]) or None


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
