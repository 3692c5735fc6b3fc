"""Several processes, on one machine or on many, that take every step together.

JAX's own runtime connects them (`jax.distributed`). All run the same program on the same numbers, each step shared out
by `Parallel`; the first process decides what depends on a clock or a signal, writes the files, and talks.
"""

import contextlib
import json
import os
import sys
from typing import Any

import numpy as np

#: Seconds without a sign of life after which a process counts as dead; a closed connection is noticed at once.
HEARTBEAT = 30

_joined = False


def join(coordinator: str | None = None, processes: int | None = None, number: int | None = None) -> None:
    """Become process `number` of `processes`, which meet at process 0's address "host:port".

    None is for JAX to find out, from SLURM, Open MPI or a cloud's environment. Before any computation.
    """
    import jax

    global _joined
    with contextlib.suppress(AttributeError):
        jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM away from the command
    local = coordinator is not None and coordinator.rpartition(":")[0] in ("127.0.0.1", "localhost")
    jax.distributed.initialize(
        coordinator,
        processes,
        number,
        heartbeat_timeout_seconds=HEARTBEAT,
        shutdown_timeout_seconds=HEARTBEAT,
        coordinator_bind_address=coordinator if local else None,
    )
    _joined = True
    sys.stdout.flush()
    terminal, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # Gloo greets its peers on the output that belongs to the command
    try:
        meet()
    finally:
        os.dup2(terminal if first() else nowhere, 1)
        os.close(terminal)
        os.close(nowhere)


def first() -> bool:
    """Whether this is the process that writes and talks: process 0, or the only one."""
    if not _joined:
        return True
    import jax

    return jax.process_index() == 0


def meet() -> None:
    """Wait until all processes are here."""
    agree(None)


def agree(value: Any) -> Any:
    """Process 0's value, a small one that JSON can hold."""
    if not _joined:
        return value
    from jax.experimental.multihost_utils import broadcast_one_to_all

    message, text = np.zeros(4096, np.uint8), json.dumps(value).encode()
    message[: len(text)] = np.frombuffer(text, np.uint8)
    return json.loads(bytes(broadcast_one_to_all(message)).rstrip(b"\0"))


def parallel(regularizer: Any) -> Any:
    """How the processes share a step out; None where there is one."""
    if not _joined:
        return None
    from ..sharding.mesh import Parallel

    return Parallel(scheme="exact" if regularizer.is_smooth else "data")


def lost_peer(error: BaseException) -> str | None:
    """The sentence for an error that means that another process is gone; None for any other error."""
    if not _joined or not any(sign in str(error) for sign in ("Gloo", "coordination service", "heartbeat")):
        return None
    return (
        "another process of this run has ended, so this one ends too. All up to the last checkpoint is saved: go "
        "on with scax resume, with any number of processes."
    )


def leave(error: BaseException | None) -> None:
    """Part from the other processes: in order at a good end, at once after an error, for they might wait for ever."""
    global _joined
    if not _joined:
        return
    code = error.code if isinstance(error, SystemExit) else 1
    if error is None or code in (None, 0, 130):  # 130: stopped by all of them together
        import jax

        _joined = False
        jax.distributed.shutdown()
        return
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)
