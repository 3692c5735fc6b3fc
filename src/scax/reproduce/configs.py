"""What the paper ran, row by row, and the numbers it printed.

S. Scardapane and P. Di Lorenzo, Stochastic Training of Neural Networks via Successive Convex Approximations, 2017.
"""

import dataclasses
import math
from typing import NamedTuple

from ..sharding.blocks import Blocks


class Printed(NamedTuple):
    """A mean ± standard deviation over 100 repetitions, as printed."""

    mean: float
    sd: float


#: The paper prints no number of iterations. After about this many its baselines, run here with its settings, are
#: nearest to the test errors it printed.
ITERATIONS = 500


@dataclasses.dataclass(frozen=True)
class PaperRow:
    """A row of Table 2: tanh network of these widths, inputs in [−½, ½], target in [−.9, .9], squared loss."""

    label: str
    dataset: str  # its name in scax.tables.datasets
    widths: tuple[int, ...]
    paper: dict[str, Printed]  # test MSE by optimizer
    separator: str = ","
    batch_size: int = 20
    l2: float = 1e-3
    test_share: float = 0.25


TABLE2 = (
    PaperRow(
        "CASP", "casp", (9, 10, 6, 1),
        {
            "sgd": Printed(0.2713, 0.0053), "adagrad": Printed(0.2348, 0.0074), "rmsprop": Printed(0.2182, 0.0114),
            "adam": Printed(0.2107, 0.0103), "sca": Printed(0.2017, 0.0045),
        },
    ),
    PaperRow(
        "Parkinsons", "parkinsons", (19, 15, 5, 1),
        {
            "sgd": Printed(0.1550, 0.0062), "adagrad": Printed(0.1389, 0.0042), "rmsprop": Printed(0.1417, 0.0075),
            "adam": Printed(0.1403, 0.0058), "sca": Printed(0.1374, 0.0045),
        },
    ),
    PaperRow(
        "SkillCraft1", "skillcraft1", (18, 15, 10, 1),
        {
            "sgd": Printed(0.0708, 0.0040), "adagrad": Printed(0.0688, 0.0029), "rmsprop": Printed(0.0738, 0.0083),
            "adam": Printed(0.0707, 0.0061), "sca": Printed(0.0675, 0.0034),
        },
    ),
    PaperRow(
        "Wine", "winequality-white", (11, 10, 4, 1),
        {
            "sgd": Printed(0.0692, 0.0029), "adagrad": Printed(0.0551, 0.0024), "rmsprop": Printed(0.0562, 0.0025),
            "adam": Printed(0.0543, 0.0034), "sca": Printed(0.0528, 0.0023),
        },
        separator=";",
    ),
)  # fmt: skip


class Setting(NamedTuple):
    """How a baseline is run: learning rate, its decay, and whether the averaged iterate is taken."""

    rate: float
    decay: str  # "constant", "cosine" to zero at the last iteration, or "quadratic": a ← a(1 − .01 a)
    averaged: bool = False

    def __str__(self) -> str:
        return f"{self.rate:g}, {self.decay}" + (", averaged" if self.averaged else "")


#: The paper's settings; AdaGrad's sum of squares starts at 0, RMSProp's γ is .9, Adam's moments decay by .9 and .999.
PAPER_SETTINGS = {
    "sgd": Setting(0.1, "quadratic"),
    "adagrad": Setting(0.01, "constant"),
    "rmsprop": Setting(0.01, "constant"),
    "adam": Setting(0.001, "constant"),
}

#: What the tuned baselines choose from, besides the last or the averaged iterate.
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
DECAYS = ("constant", "cosine")
#: Splits and starts on which they choose, none of them among those reported.
TUNING_REPEATS = 5

LABELS = {"sgd": "SGD", "adagrad": "AdaGrad", "rmsprop": "RMSProp", "adam": "Adam", "sca": "SCA"}


@dataclasses.dataclass(frozen=True)
class Susy:
    """The large-scale experiment: 18/100/100/1, L = 50, a quarter held out, AUC with C blocks."""

    label: str
    about: str
    loss: str  # "squared" on a tanh output, targets ±.9, or "logistic"
    scaling: str  # inputs "range" in [−½, ½] or "standard"
    l2: float
    widths: tuple[int, ...] = (18, 100, 100, 1)
    batch_size: int = 50
    test_share: float = 0.25
    paper: dict[str, float] = dataclasses.field(default_factory=dict)  # test AUC


SUSY_ITERATIONS = 2000
SUSY = (
    Susy("paper", "the paper's problem", "squared", "range", 0.01, paper={"sca": 0.85, "adam": 0.77}),
    Susy("cross-entropy", "cross-entropy, standardized inputs, a tenth of the penalty", "logistic", "standard", 1e-3),
)
SUSY_BLOCKS = {
    "1": None,
    **{str(c): Blocks(c) for c in (4, 16, 64)},
    **{f"{c}-random": Blocks(c, by="random", overlap=math.sqrt(c)) for c in (4, 16, 64)},
}

SPEEDUP_BLOCKS = (1, 2, 4, 8, 16, 32, 64)
