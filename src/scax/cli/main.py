"""The `scax` command. Nothing heavy is imported here: `scax --help` must answer at once."""

import os
import sys

import typer

from .._cache import set_environment
from .._text import fitted, printable
from . import interrupts
from .errors import INTERRUPTED, LAUNCHED, LONGEST, LOST, explain, fail

cli = typer.Typer(
    name="scax",
    help="Train neural networks by stochastic successive convex approximation.",
    epilog="Start with: scax train TABLE.csv --target COLUMN, or scax train diabetes. "
    "After a command, --help explains its options.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        print(f"scax {version('scax')}")
        raise typer.Exit
    return wanted


@cli.callback()
def _common(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
    debug: bool = typer.Option(False, "--debug", help="Show the whole traceback of an error."),
) -> None:
    if debug:
        os.environ["SCAX_DEBUG"] = "1"


from . import compare, datasets, evaluate, launch, predict, report, reproduce, train  # noqa: E402

# In the order in which a person needs them.
for part in (train, predict, evaluate, report):
    part.register(cli)
train.register_resume(cli)
for part in (compare, datasets, reproduce, launch):
    part.register(cli)


def app() -> None:
    """Run the command. What a user can put right is a line on stderr and exit code 2, not a traceback."""
    # The factorizations here are small: one thread is as fast, and on cores shared with other programs far faster.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    set_environment()
    try:
        with interrupts.listen():
            try:
                code = cli(prog_name="scax", standalone_mode=False)
            except KeyboardInterrupt:
                fail("stopped.", INTERRUPTED)
            except BaseException as error:
                _end(error)
            else:
                if code == INTERRUPTED:  # what the parser makes of a KeyboardInterrupt
                    fail("stopped.", INTERRUPTED)
                sys.exit(code if isinstance(code, int) else 0)
    except BaseException as end:
        if hosts := sys.modules.get("scax.cluster.hosts"):
            hosts.leave(end)
        raise


def _end(error: BaseException) -> None:
    if isinstance(error, SystemExit) or os.environ.get("SCAX_DEBUG"):
        raise error
    if type(error).__name__ == "NoArgsIsHelpError":
        print(str(error).rstrip())
        sys.exit(2)
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # the parser's own errors
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "scax"
        message = printable(format_message().rstrip(".").replace("\n", " "), LONGEST)
        end = "" if message.endswith(("?", "…")) else "."
        print(f"{fitted(f'{command}: {message}{end}', sys.stderr)}\nSee `{command} --help`.", file=sys.stderr)
        sys.exit(2)
    if type(error).__name__ == "Abort":
        fail("stopped.", INTERRUPTED)
    if (hosts := sys.modules.get("scax.cluster.hosts")) and (message := hosts.lost_peer(error)):
        sys.exit(LOST) if LAUNCHED in os.environ else fail(message, LOST)
    message = explain(error)
    if message is None:
        raise error
    fail(message)
