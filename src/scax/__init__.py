"""scax: training neural networks by stochastic successive convex approximation.

Names are imported when first used: `scax.load` and `scax --help` wait neither for JAX nor for anything else they do
not need, and a saved model predicts on a machine without JAX.
"""

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data as data
    from . import files as files
    from . import solvers as solvers
    from .acceptance import Acceptance as Acceptance
    from .baselines import baseline as baseline
    from .batch import Batch as Batch
    from .blocks import Blocks as Blocks
    from .bridges import as_optax as as_optax
    from .bridges import from_equinox as from_equinox
    from .bridges import from_flax as from_flax
    from .bridges import from_torch as from_torch
    from .damping import Relative as Relative
    from .files import FileError as FileError
    from .files import Model as Model
    from .files import load as load
    from .files import save as save
    from .losses import Huber as Huber
    from .losses import Logistic as Logistic
    from .losses import Loss as Loss
    from .losses import Poisson as Poisson
    from .losses import Softmax as Softmax
    from .losses import Squared as Squared
    from .metric import LowRank as LowRank
    from .models import MLP as MLP
    from .models import Compacted as Compacted
    from .models import compact as compact
    from .parallel import Parallel as Parallel
    from .parallel import train_async as train_async
    from .problem import Problem as Problem
    from .regularizers import L1 as L1
    from .regularizers import L2 as L2
    from .regularizers import Box as Box
    from .regularizers import ElasticNet as ElasticNet
    from .regularizers import GroupLasso as GroupLasso
    from .regularizers import Groups as Groups
    from .regularizers import LogSum as LogSum
    from .regularizers import Manifold as Manifold
    from .regularizers import Regularizer as Regularizer
    from .regularizers import Support as Support
    from .regularizers import knn_graph as knn_graph
    from .regularizers import neuron_groups as neuron_groups
    from .sca import SCA as SCA
    from .schedules import Approach as Approach
    from .schedules import Constant as Constant
    from .schedules import PowerDecay as PowerDecay
    from .schedules import QuadraticDecay as QuadraticDecay
    from .status import Status as Status
    from .train import Path as Path
    from .train import Result as Result
    from .train import Stationarity as Stationarity
    from .train import finish as finish
    from .train import path as path
    from .train import refit as refit
    from .train import stationarity as stationarity
    from .train import train as train
    from .train import train_many as train_many

#: module → the public names found there; the imports above say the same to type checkers (a test compares them)
_NAMES = {
    "acceptance": ("Acceptance",),
    "baselines": ("baseline",),
    "batch": ("Batch",),
    "blocks": ("Blocks",),
    "bridges": ("as_optax", "from_equinox", "from_flax", "from_torch"),
    "damping": ("Relative",),
    "files": ("FileError", "Model", "load", "save"),
    "losses": ("Huber", "Logistic", "Loss", "Poisson", "Softmax", "Squared"),
    "metric": ("LowRank",),
    "models": ("Compacted", "MLP", "compact"),
    "parallel": ("Parallel", "train_async"),
    "problem": ("Problem",),
    "regularizers": (
        "L1",
        "L2",
        "Box",
        "ElasticNet",
        "GroupLasso",
        "Groups",
        "LogSum",
        "Manifold",
        "Regularizer",
        "Support",
        "knn_graph",
        "neuron_groups",
    ),
    "sca": ("SCA",),
    "schedules": ("Approach", "Constant", "PowerDecay", "QuadraticDecay"),
    "status": ("Status",),
    "train": ("Path", "Result", "Stationarity", "finish", "path", "refit", "stationarity", "train", "train_many"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        return _folder(name)
    value = getattr(importlib.import_module("." + _HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})


def _folder(name: str) -> Any:
    """`scax.estimators` without importing it first, and likewise every other part of the package."""
    try:
        if not name.startswith("_"):
            return importlib.import_module("." + name, __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(types.ModuleType):
    """`scax.train` is the function, although a folder of that name exists.

    Importing the folder makes Python bind it to the name in this module; the setter lets that pass.
    """

    @property
    def train(self) -> Any:
        return getattr(importlib.import_module(".train", __name__), "train")  # noqa: B009

    @train.setter
    def train(self, value: Any) -> None:
        pass


sys.modules[__name__].__class__ = _Package
