"""What `scax train` and `scax resume` do once their options are read: show the table, the progress, the outcome."""

import contextlib
import json
import shlex
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from .._text import printable
from ..cluster import hosts
from ..report.numbers import number
from ..runs import folds
from ..runs import session as sessions
from ..runs.checks import check_folder
from ..runs.config import TrainConfig
from ..runs.reading import survey
from ..runs.results import finish
from ..runs.tensorboard import EventFiles
from ..storage import remove_parts
from ..storage.run_files import FOLDS, MODEL, read_environment
from ..storage.run_folder import RunFolderError, finite, locked, other_versions, write_json
from ..training.scores import SCORES
from ..training.strength import STRENGTHS
from . import interrupts
from .errors import INTERRUPTED
from .live import Display, Lines
from .words import count, say

MANY_CLASSES = 50  # from which on the price of a step is shown
SHOWN = 24  # columns of a table listed in the terminal; schema.json has them all


def begin(
    folder: Path,
    config: TrainConfig,
    save_every: float,
    machine: bool,
    events: Path | None = None,
    auto: Collection[str] = (),
) -> None:
    """scax train."""
    console = Console(stderr=True)
    if not hosts.first():
        hosts.meet()  # until the folder is there
        session = sessions.resume(folder)
        with interrupts.patient():
            _run(session, save_every, machine, console)
        return
    with _reading(console) as progress, interrupts.anywhere():
        table, preprocess = survey(config, progress)
    if not machine:
        show_schema(table.name, preprocess.schema)
    for warning in preprocess.schema.warnings:
        say(f"scax: warning: {warning}", to_stderr=True)
    command = shlex.join(["scax", "train", "--config", str(folder / "config.toml"), "--out", f"{folder}-again"])
    with _resumable(folder):
        with interrupts.anywhere():
            tell = (lambda text: None) if machine else (lambda text: say(text, flush=True))
            session = sessions.start(folder, config, table, preprocess, command, auto, tell)
        for warning in session.data.warnings:
            say(f"scax: warning: {warning}", to_stderr=True)
        with interrupts.patient(_go_on(folder)):
            hosts.meet()
            with locked(folder):
                _run(session, save_every, machine, console, events)
                if config.folds:
                    _cross_validate(folder, config, auto, machine)


def again(folder: Path, save_every: float, machine: bool, events: Path | None = None, steps: int | None = None) -> None:
    """scax resume."""
    if steps is None and (folder / "results.json").is_file() and (folder / MODEL).is_file():
        with contextlib.suppress(RunFolderError, OSError), locked(folder):
            remove_parts(folder)  # of folds whose process was killed
        if machine:
            _emit({"run": str(folder), "complete": True})
        else:
            say(f"{folder} is complete: there is nothing left to do; --steps trains on.")
        return
    check_folder(folder)
    with locked(folder) if hosts.first() else contextlib.nullcontext(), _resumable(folder):
        if hosts.first():
            remove_parts(folder)
        with interrupts.anywhere():
            session = sessions.resume(folder, steps)
        if steps is not None:
            session.lengthen()
        if (changed := other_versions(read_environment(folder)["packages"])) and hosts.first():
            say(
                f"scax: warning: the run was started with {changed}: its last bits may differ from those of a run that "
                "was not stopped.",
                to_stderr=True,
            )
        if not machine:
            say(f"Resuming {folder} at step {session.step:,} of {session.config.steps:,}.")
        with interrupts.patient(_go_on(folder)):
            _run(session, save_every, machine, Console(stderr=True), events)


def _run(
    session: sessions.Session, save_every: float, machine: bool, console: Console, events: Path | None = None
) -> None:
    folder, config, score = session.folder, session.config, SCORES[session.data.task]
    if not machine:
        held, test = (0 if part is None else len(part[0]) for part in (session.data.held_out, session.data.test))
        say(
            f"Training a {'/'.join(map(str, session.net.widths))} network ({session.weights:,} weights) on "
            f"{count(session.data.rows, 'row')}; {held:,} for validation, {test:,} for the test.",
        )
        passes = config.steps * config.batch_size / max(session.data.rows, 1)
        say(
            f"{config.activation}, {config.steps:,} steps of {count(config.batch_size, 'row')} ({passes:.3g} passes), "
            f"penalty {_penalties(config)}; the {config.keep} step is kept. The first step compiles.",
            flush=True,
        )
        if session.net.widths[-1] >= MANY_CLASSES:
            say(f"A step with {session.net.widths[-1]} classes: {session.step_cost()}.", flush=True)
    if session.undecided:
        _choose(session, machine)
    written = None if events is None or not hosts.first() else EventFiles(events, session.step)
    shown, lines = not machine and console.is_terminal and hosts.first(), Lines()
    with Display(console, shown, config.steps, session.step, score.name) as display:

        def on_record(record: dict[str, Any]) -> None:
            display.on_record(record)
            if written is not None:
                written.record(record)
            if machine:
                _emit(record)
            elif not shown and hosts.first():
                lines(f"scax: step {record['step']:,} of {config.steps:,}, objective {number(record['objective'])}")

        done = session.go(on_record, display.on_step, interrupts.asked, save_every)
    if written is not None:
        written.close()
    if not done and not hosts.first():
        raise SystemExit(INTERRUPTED)
    if not done:
        say(f"scax: stopped at step {session.step:,}; all is saved. Go on: scax resume {folder}", to_stderr=True)
        raise SystemExit(INTERRUPTED)
    results = finish(session)
    _outcome(folder, results, machine)


def _cross_validate(folder: Path, config: TrainConfig, auto: Collection[str], machine: bool) -> None:
    """Scores by folds, written beside the model, which has seen all of them."""
    if not machine:
        say(
            f"Cross-validation: {config.folds} networks more, each scored on rows that nothing was chosen by.",
            flush=True,
        )

    def on_fold(fold: int, scores: dict[str, Any]) -> None:
        if machine:
            _emit({"fold": fold, **scores})
        else:
            told = ", ".join(f"{name} {number(value)}" for name, value in scores.items() if type(value) is float)
            say(f"  fold {fold}: {told}", flush=True)

    found = folds.scores(config, auto, on_fold, interrupts.asked, folder)
    if found is None:
        say(f"scax: stopped; the model in {folder} is whole, its cross-validation is not.", to_stderr=True)
        raise SystemExit(INTERRUPTED)
    summary = folds.summary(found)
    write_json(folder / FOLDS, summary)
    if machine:
        _emit({"folds": config.folds, "mean": summary["mean"], "deviation": summary["deviation"]})
        return
    spread = summary["deviation"]
    told = (f"{name} {number(value)} ± {number(spread[name])}" for name, value in summary["mean"].items())
    say(f"Mean of {config.folds} folds ± deviation between them: {', '.join(told)}.")


def _emit(value: dict[str, Any]) -> None:
    """A line for machines."""
    print(json.dumps(finite(value)), flush=True)


def _penalties(config: TrainConfig) -> str:
    """Those that are on, with their strengths."""
    named = {name: getattr(config, name) for name in ("l2", "l1", "log", "group")}
    on = [f"{name} {value:.2g}" for name, value in named.items() if value]
    return " + ".join(on + ([f"{config.penalty} auto"] if config.strength else [])) or "l2 0"


def _choose(session: sessions.Session, machine: bool) -> None:
    """Find the strength, a line for each one tried."""
    config = session.config
    if not machine:
        say(f"Choosing the strength of the {config.penalty} penalty on some of the training rows:")

    def on_record(record: dict[str, Any]) -> None:
        if machine:
            _emit({"path": record})
        else:
            left = count(record["weights"], "weight")
            say(f"  {record['strength']:8.2g}  loss {number(record['loss'])}, {left} in use", flush=True)

    done = session.choose(on_record, interrupts.asked)
    if not done:
        say(f"scax: stopped; the strength is chosen anew. Go on: scax resume {session.folder}", to_stderr=True)
        raise SystemExit(INTERRUPTED)
    if not machine:
        strongest = session.strength == STRENGTHS[-1]
        more = "; it is the strongest tried, and --strength NUMBER takes any" if strongest else ""
        say(f"Chosen: {session.strength:.2g}, the strongest within one standard error of the best{more}.")


def _outcome(folder: Path, results: dict[str, Any], machine: bool) -> None:
    final, name = results["final"], results["score"]["name"]
    model = folder / MODEL
    if machine:
        scores = {key: results[key] for key in ("test", "importance") if key in results}
        _emit({"run": str(folder), "complete": True, "model": str(model), "final": final} | scores)
        return
    sentence = f"Training objective {number(final['objective'])}"
    if name in final and final[name] is None and results["task"] == "binary":
        sentence += f"; no {name}, for the validation rows are of one class"
    elif name in final:
        sentence += f"; validation {name} {number(final[name])}"
    if results["kept"] == "best":
        sentence += f", best at step {final['step']:,}"
    say(f"{sentence}.")
    if "test" in results:
        parts = (f"{key} {number(value)}" for key, value in results["test"].items() if type(value) is float)
        line = f" (a linear model: RMSE {number(results['linear']['RMSE'])})" if "linear" in results else ""
        say(f"On {count(results['rows']['test'], 'test row')}: {', '.join(parts)}{line}.")
    if (ends := results.get("intervals")) is not None:
        covered = ends["covered"][ends["levels"].index(0.95)]
        say(f"95% intervals covered {100 * covered:.0f}% of {count(ends['rows'], 'row')} held out.")
    if useful := [printable(each["column"], 40) for each in results.get("importance", []) if each["rise"] > 0][:5]:
        say(f"Columns that matter most: {', '.join(useful)}.")
    left, inputs = results["sparsity"], results["network"][0]
    if not left["inputs"]:
        say("Nothing is left of the network: it gives the same answer for every row. A weaker penalty leaves more.")
    elif left["weights"] < results["weights"]:
        say(
            f"{left['weights']:,} of {results['weights']:,} weights are in use, and {len(left['inputs'])} of "
            f"{count(inputs, 'input')}; without the others the network is "
            f"{'/'.join(map(str, left['network']))}."
        )
    say(f"Model: {model}")
    say(f"Next: scax predict {folder} NEW.csv, or scax report {folder}")


@contextlib.contextmanager
def _reading(console: Console) -> Iterator[Callable[[int], None]]:
    """What to call with the rows read so far: a terminal shows them, elsewhere a line tells of them now and then."""
    task = "Reading the table"
    if console.is_terminal:
        with console.status(task, spinner="dots") as status:
            yield lambda rows: status.update(f"{task}: {rows:,} rows")
    else:
        lines = Lines()
        yield lambda rows: lines(f"scax: {task.lower()}, {rows:,} rows so far")


def show_schema(name: str, schema: Any) -> None:
    """What was found in the table."""
    lines = schema.show()
    parts = (
        count(schema.rows, "row"),
        count(len(schema.columns), "column") + " beside the target",
        count(schema.width, "input"),
    )
    say(f"{name}: {', '.join(parts)}.")
    shown = lines if len(lines) <= SHOWN else [*lines[: SHOWN - 2], lines[-1]]
    shown = [(printable(column, 28), kind, remark) for column, kind, remark in shown]
    width = max(len(n) for n, *_ in shown)
    kinds = max(len(k) for _, k, _ in shown)
    for column, kind, remark in shown:
        say(f"  {column:{width}}  {kind:{kinds}}  {remark}".rstrip())
    if len(lines) > len(shown):
        say(f"  … and {len(lines) - len(shown)} more in schema.json")


@contextlib.contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """A stop from here on says how to go on, if the folder is there already."""
    try:
        yield
    except KeyboardInterrupt:
        if not (folder / "config.toml").is_file() or not hosts.first():
            raise
        say(f"scax: {_go_on(folder)}", to_stderr=True)
        raise SystemExit(INTERRUPTED) from None


def _go_on(folder: Path) -> str:
    return f"stopped. Go on: scax resume {folder}"
