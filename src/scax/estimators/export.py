"""A trained estimator as a model file: the network and the way from columns to its inputs, for NumPy alone or ONNX."""

from typing import Any

import numpy as np

from ..storage.model import Model
from ..tables.encode import Encoding
from ..tables.preprocess import Preprocess
from ..tables.readings import ISO, PARTS
from ..tables.schema import Column, Schema, Target
from .columns import Columns

#: The scale of a column that is always the same: whatever comes later counts as nothing.
NOTHING = 1e290


def model_of(
    layers: list[tuple[np.ndarray, np.ndarray]],
    activation: str,
    link: str,
    columns: Columns,
    encoding: Encoding,
    names: list[str],
    target: Target,
    units: tuple[float, float],
) -> Model:
    """`units`: mean and scale of a regression target."""
    parts = ((each, part) for each in columns.columns for part in (PARTS if each.kind == "date" else ("",)))
    described = [_column(each, part, i, encoding, names) for i, (each, part) in enumerate(parts)]
    is_number = [c.kind == "number" for c in described]
    scale = np.where(np.isfinite(encoding.scale), encoding.scale, NOTHING)
    limit = np.where(np.isfinite(encoding.limit), encoding.limit, 0.0)
    parts = (np.where(is_number, part, other) for part, other in
             ((encoding.fill, 0), (encoding.center, 0), (scale, 1), (limit, 0)))  # fmt: skip
    median, mean, scale, limit = parts
    preprocess = Preprocess(Schema(tuple(described), target), median, mean, scale, *units, limit)
    return Model(tuple(layers), activation, "linear", link, preprocess)


def _column(column: Any, part: str, i: int, encoding: Encoding, names: list[str]) -> Column:
    """Column `i` of the matrix, which is a column of X or a part of a date in it."""
    name, indicator = names[column.place], bool(encoding.indicator[i])
    edges = tuple(encoding.edges[i].tolist())
    if part:
        return Column(f"{name}: {part}", "number", indicator=indicator, edges=edges, source=name, form=ISO, part=part)
    if column.kind == "category":
        levels = [f"{v:g}" if isinstance(v, float) else str(v) for v in column.levels]
        return Column(name, "category", tuple(levels), indicator)
    return Column(name, "number", indicator=indicator, edges=edges)


def target_of(name: str, classes: np.ndarray | None) -> Target:
    """The target as a model file describes it."""
    if classes is None:
        return Target(name, "regression")
    plain = tuple(c if isinstance(c, bool | int | str) else str(c) for c in classes.tolist())
    return Target(name, "classification", plain)
