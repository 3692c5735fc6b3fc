"""The recipe for a table: which network, how long, how many of them; sized by the table alone."""

import dataclasses

#: Rows from which a table can spare some to choose the best epoch by, and feed a deeper network.
MANY_ROWS = 1000
#: Columns up to which numbers have bins: 16 features each.
MOST_COLUMNS = 256
#: Steps of one run, about: more rows, fewer epochs.
STEPS = 6000


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a fit uses where nothing else is said.

    Few rows: a small network, trained on all of them until its objective stands still. Many: a deeper one, in single
    precision; a fifth of the rows choose its best epoch, and all rows are then trained on for as long. Several such
    networks are trained at once from different starts, and their outputs averaged; a penalty that makes zeros is there
    for one small network.

    Example: `print(Recipe.of(7500, smooth=True))` says "4 networks of 64/64, …".
    """

    hidden: tuple[int, ...]
    activation: str
    numbers: str  # how columns of numbers enter: see tables/encode.py; "both": bins for half of the members
    epochs: int  # at most
    tol: float
    patience: int  # epochs without an improvement by more than tol
    holds_out: bool  # whether the best epoch is chosen by rows held out
    fraction: float  # of the rows, those
    members: int
    refits: bool  # whether the members are then trained on all rows, for as many epochs as were best
    is_single: bool  # precision

    @staticmethod
    def of(rows: int, columns: int, smooth: bool = True, batch_size: int = 64) -> "Recipe":
        """`smooth`: whether the penalty makes no zeros."""
        members = 4 if smooth else 1
        if rows < MANY_ROWS or not smooth:
            return Recipe((32,), "tanh", "standard", 100, 1e-3, 3, False, 0.1, members, False, False)
        epochs = int(min(max(STEPS * batch_size / rows, 25), 60))
        numbers = "both" if columns <= MOST_COLUMNS else "clipped"
        return Recipe((64, 64), "silu", numbers, epochs, 0.0, 10, True, 0.2, members, True, True)

    def __str__(self) -> str:
        network = "/".join(map(str, self.hidden)) or "no hidden units"
        count = "1 network" if self.members == 1 else f"{self.members} networks"
        ends = f"until they improve by less than {self.tol:g}"
        if self.holds_out:
            ends = f"the best epoch by {self.fraction:.0%} of the rows{', then all rows' if self.refits else ''}"
        numbers = {"both": "bins of numbers for half of them", "bins": "bins of numbers"}.get(self.numbers)
        return f"{count} of {network}{f', {numbers}' if numbers else ''}, up to {self.epochs} epochs, {ends}"
