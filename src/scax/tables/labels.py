"""From a block of a table to the target as a loss wants it. NumPy alone."""

import dataclasses

import numpy as np

from .columns import MISSING_CODE, UNSEEN_CODE, Values
from .errors import TableError
from .features import booleans, finite
from .schema import Column, Target
from .table import Block


@dataclasses.dataclass(frozen=True)
class Labels:
    """The target: numbers in units of `scale` around `mean`, or codes of its classes."""

    goal: Target
    mean: float
    scale: float

    def encode(self, block: Block) -> np.ndarray:
        """y of one block, as `Preprocess.target` says."""
        goal = self.goal
        values = block.column(goal.name)
        if goal.task == "regression":
            numbers = finite(block, Column(goal.name, "number"), values)
            self._no_missing(block, np.isnan(numbers))
            with np.errstate(over="ignore"):
                scaled = ((numbers - self.mean) / self.scale).astype(np.float32)
            if not np.isfinite(scaled).all():
                row = int((~np.isfinite(scaled)).argmax())
                raise TableError(
                    f"The target {goal.name!r} is {numbers[row]:g} in row {block.start + row + 1}, and in training it "
                    f"was {self.mean:g} ± {self.scale:g}: too far away for float32. Correct it."
                )
            return scaled
        codes = self._classes(block, values)
        self._no_missing(block, codes == MISSING_CODE)
        if (codes == UNSEEN_CODE).any():
            row = int((codes == UNSEEN_CODE).argmax())
            raise TableError(
                f"The target {goal.name!r} is {values.text(row)[:40]!r} in row {block.start + row + 1}, which is none "
                "of the classes of the model."
            )
        return codes.astype(np.float32 if len(goal.classes) == 2 else np.int32)

    def _classes(self, block: Block, values: Values) -> np.ndarray:
        classes = self.goal.classes
        if all(isinstance(c, str) for c in classes):
            return values.codes({str(c): i for i, c in enumerate(classes)})
        if classes == (False, True) and all(isinstance(c, bool) for c in classes):
            numbers = booleans(block, Column(self.goal.name, "boolean"), values)
        else:
            numbers = finite(block, Column(self.goal.name, "number"), values)
        known = np.array([float(c) for c in classes])
        found = np.searchsorted(known, np.nan_to_num(numbers)).clip(0, len(known) - 1)
        codes = np.where(known[found] == numbers, found, UNSEEN_CODE)
        return np.where(np.isnan(numbers), MISSING_CODE, codes)

    def _no_missing(self, block: Block, missing: np.ndarray) -> None:
        if missing.any():
            row = block.start + int(missing.argmax()) + 1
            raise TableError(f"The target {self.goal.name!r} is missing in row {row}: remove such rows.")
