"""scax: training neural networks by stochastic successive convex approximation.

Names are imported when first used: `scax.load` and `scax --help` wait neither for JAX nor for anything else they do
not need, and a saved model predicts on a machine without JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ._lazy import on_demand

if TYPE_CHECKING:
    from . import federated as federated
    from . import solvers as solvers
    from . import storage as storage
    from . import tables as tables
    from .batch import Batch as Batch
    from .bridges import as_optax as as_optax
    from .bridges import from_equinox as from_equinox
    from .bridges import from_flax as from_flax
    from .bridges import from_torch as from_torch
    from .cluster.asynchronous import train_async as train_async
    from .losses import Huber as Huber
    from .losses import Logistic as Logistic
    from .losses import Loss as Loss
    from .losses import Poisson as Poisson
    from .losses import Softmax as Softmax
    from .losses import Squared as Squared
    from .models import MLP as MLP
    from .models import Compacted as Compacted
    from .models import compact as compact
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
    from .rules.acceptance import Acceptance as Acceptance
    from .rules.curvature_memory import LowRank as LowRank
    from .rules.damping import Relative as Relative
    from .rules.sequences import Approach as Approach
    from .rules.sequences import Constant as Constant
    from .rules.sequences import PowerDecay as PowerDecay
    from .rules.sequences import QuadraticDecay as QuadraticDecay
    from .sca import SCA as SCA
    from .sharding import Blocks as Blocks
    from .sharding import Parallel as Parallel
    from .status import Status as Status
    from .storage import FileError as FileError
    from .storage import Model as Model
    from .storage import load as load
    from .storage import save as save
    from .terms import Term as Term
    from .training import Path as Path
    from .training import Result as Result
    from .training import Stationarity as Stationarity
    from .training import baseline as baseline
    from .training import finish as finish
    from .training import path as path
    from .training import refit as refit
    from .training import stationarity as stationarity
    from .training import train as train
    from .training import train_many as train_many
    from .uncertainty import Posterior as Posterior
    from .uncertainty import posterior as posterior
    from .uncertainty import train_by_evidence as train_by_evidence

#: module → the public names found there; the imports above say the same to type checkers (a test compares them)
_NAMES = {
    "batch": ("Batch",),
    "bridges": ("as_optax", "from_equinox", "from_flax", "from_torch"),
    "cluster.asynchronous": ("train_async",),
    "losses": ("Huber", "Logistic", "Loss", "Poisson", "Softmax", "Squared"),
    "models": ("MLP", "Compacted", "compact"),
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
    "rules.acceptance": ("Acceptance",),
    "rules.curvature_memory": ("LowRank",),
    "rules.damping": ("Relative",),
    "rules.sequences": ("Approach", "Constant", "PowerDecay", "QuadraticDecay"),
    "sca": ("SCA",),
    "sharding": ("Blocks", "Parallel"),
    "status": ("Status",),
    "storage": ("FileError", "Model", "load", "save"),
    "terms": ("Term",),
    "training": (
        "Path",
        "Result",
        "Stationarity",
        "baseline",
        "finish",
        "path",
        "refit",
        "stationarity",
        "train",
        "train_many",
    ),
    "uncertainty": ("Posterior", "posterior", "train_by_evidence"),
}


def _folder(name: str) -> Any:
    """`scax.estimators` without importing it first, and likewise every other part of the package."""
    try:
        if not name.startswith("_"):
            return importlib.import_module("." + name, __name__)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__getattr__, __dir__ = on_demand(__name__, _NAMES, _folder)
