"""One step spread over devices, and steps by workers that do not wait for each other."""

from typing import TYPE_CHECKING, Any

from .mesh import Parallel as Parallel

if TYPE_CHECKING:
    from .asynchronous import train_async as train_async


def __getattr__(name: str) -> Any:
    if name == "train_async":  # it needs the training loop, which needs the method, which needs this folder
        from .asynchronous import train_async

        return train_async
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
