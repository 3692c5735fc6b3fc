"""A model as ONNX, its preprocessing included, built node by node with onnx.helper.

The network runs in float32 there; numbers are standardized in float64 first, as in NumPy.
"""

import os
from typing import Any

import numpy as np

from .._extras import required_by
from ..tables.schema import Column
from .errors import FileError
from .model import Model
from .whole import write_bytes

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8


class _Graph:
    """Nodes and constants as they come; `node` gives the name of its result."""

    def __init__(self):
        import onnx
        from onnx import helper, numpy_helper

        self.helper, self.numpy, self.types = helper, numpy_helper, onnx.TensorProto
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"scax/{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, value: Any) -> str:
        name = f"scax/constant/{len(self.constants)}"
        array = np.asarray(value)
        if array.dtype.kind in "OU":
            texts = [str(text).encode() for text in array.ravel()]
            tensor = self.helper.make_tensor(name, self.types.STRING, array.shape, texts)
        else:
            tensor = self.numpy.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        self.constants.append(tensor)
        return name

    def take(self, name: str, kind: int, shape: list) -> str:
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, shape))
        return name

    def give(self, value: str, name: str, kind: int, shape: list) -> None:
        self.nodes.append(self.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, shape))


def export(model: Model, path: str | os.PathLike) -> None:
    """See Model.to_onnx."""
    with required_by("Model.to_onnx"):
        import onnx
    graph = _Graph()
    z = _network(graph, model, _inputs(graph, model))
    _predictions(graph, model, z)
    made = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "scax", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        ir_version=IR_VERSION,
        producer_name="scax",
    )
    onnx.checker.check_model(made)
    write_bytes(path, made.SerializeToString())


def _inputs(graph: _Graph, model: Model) -> str:
    """The encoded features, float [n, d]."""
    pre = model.preprocess
    if pre is None:
        return graph.take("x", graph.types.FLOAT, ["n", model.widths[0]])
    used = pre.schema.used
    plain = [j for j, c in enumerate(used) if c.kind != "category"]
    parts = []
    if plain:
        numbers = graph.take("numbers", graph.types.DOUBLE, ["n", len(plain)])
        missing = graph.node("IsNaN", numbers)
        filled = graph.node("Where", missing, graph.constant(pre.median[plain]), numbers)
        centered = graph.node("Sub", filled, graph.constant(pre.mean[plain]))
        scaled = graph.node("Div", centered, graph.constant(pre.scale[plain]))
        limit = np.zeros(len(used)) if pre.limit is None else pre.limit
        if limit.any():
            scaled = _clipped(graph, scaled, limit[plain])
        parts += [graph.node("Cast", value, to=graph.types.FLOAT) for value in (scaled, missing)]
        if any(c.edges for c in used):
            parts.append(_bins(graph, filled, [used[j] for j in plain]))
    parts += [_levels(graph, c, _input_name(c.name, i)) for i, c in enumerate(used) if c.kind == "category"]
    joined = graph.node("Concat", *parts, axis=1)
    return graph.node("Gather", joined, graph.constant(np.array(_places(used), np.int64)), axis=1)


def _clipped(graph: _Graph, z: str, limit: np.ndarray) -> str:
    """z/√(1 + (z/limit)²), where a limit is set."""
    share = graph.node("Div", z, graph.constant(np.where(limit > 0, limit, np.inf)))
    square = graph.node("Add", graph.node("Mul", share, share), graph.constant(np.float64(1)))
    return graph.node("Div", z, graph.node("Sqrt", square))


def _bins(graph: _Graph, values: str, columns: list[Column]) -> str:
    """The places within all bins, float [n, bins]."""
    which = np.array([j for j, c in enumerate(columns) for _ in c.edges[1:]], np.int64)
    low = np.array([edge for c in columns for edge in c.edges[:-1]])
    size = np.array([step for c in columns for step in np.diff(c.edges)])
    each = graph.node("Gather", values, graph.constant(which), axis=1)
    share = graph.node("Div", graph.node("Sub", each, graph.constant(low)), graph.constant(size))
    zero, one, half = (graph.constant(np.float64(v)) for v in (0, 1, 0.5))
    within = graph.node("Sub", graph.node("Min", graph.node("Max", share, zero), one), half)
    return graph.node("Cast", within, to=graph.types.FLOAT)


def _levels(graph: _Graph, column: Column, name: str) -> str:
    """One feature per level, and one for "" where the column has an indicator; all zeros for anything else."""
    levels = [*column.levels, ""] if column.indicator else list(column.levels)
    text = graph.take(name, graph.types.STRING, ["n", 1])
    hot = graph.node("OneHotEncoder", text, domain="ai.onnx.ml", cats_strings=levels, zeros=1)
    return graph.node("Reshape", hot, graph.constant(np.array([-1, len(levels)], np.int64)))


def _places(used: tuple[Column, ...]) -> list[int]:
    """Where each feature of the schema lies among [numbers, their indicators, bins, levels of each category]."""
    plain = [c for c in used if c.kind != "category"]
    places, number, place = [], 0, 2 * len(plain)
    level = place + sum(len(c.edges[1:]) for c in plain)
    for c in used:
        if c.kind == "category":
            places += range(level, level + c.width)
            level += c.width
        else:
            places += [number, *range(place, place + len(c.edges[1:]))] + [len(plain) + number] * c.indicator
            place, number = place + len(c.edges[1:]), number + 1
    return places


def _input_name(name: str, i: int) -> str:
    taken = name in ("", "numbers", "label", "probabilities", "prediction") or name.startswith("scax/")
    return f"column_{i}_{name}" if taken else name


def _network(graph: _Graph, model: Model, a: str) -> str:
    """Raw outputs [n, k]."""
    for i, (weight, bias) in enumerate(model.layers):
        wide = [graph.constant(array.astype(np.float32)) for array in (weight, bias)]
        a = graph.node("Gemm", a, *wide)
        a = _activation(graph, model.activation if i < len(model.layers) - 1 else model.output, a)
    return a


def _activation(graph: _Graph, name: str, a: str) -> str:
    plain = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu", "softplus": "Softplus", "sigmoid": "Sigmoid"}
    if name == "linear":
        return a
    if name in plain:
        return graph.node(plain[name], a)
    number = lambda value: graph.constant(np.float32(value))
    if name == "silu":
        return graph.node("Mul", a, graph.node("Sigmoid", a))
    if name == "gelu":  # a/2 · (1 + tanh(√(2/π)(a + 0.044715 a³)))
        cube = graph.node("Mul", graph.node("Mul", a, a), graph.node("Mul", a, number(0.044715)))
        inner = graph.node("Tanh", graph.node("Mul", graph.node("Add", a, cube), number(np.sqrt(2 / np.pi))))
        return graph.node("Mul", graph.node("Mul", a, number(0.5)), graph.node("Add", inner, number(1)))
    raise FileError(f"The activation {name!r} has no ONNX form here.")


def _predictions(graph: _Graph, model: Model, z: str) -> None:
    types, k = graph.types, model.widths[-1]
    link = {"logistic": "Sigmoid", "exponential": "Exp"}.get(model.link)
    y = graph.node("Softmax", z, axis=1) if model.link == "softmax" else graph.node(link, z) if link else z
    flat = graph.constant(np.array([-1], np.int64))
    if model.classes:
        if k == 1:
            best = graph.node("Greater", graph.node("Reshape", z, flat), graph.constant(np.float32(0)))
            best = graph.node("Cast", best, to=types.INT64)
            y = graph.node("Concat", graph.node("Sub", graph.constant(np.float32(1)), y), y, axis=1)
        else:
            best = graph.node("ArgMax", z, axis=1, keepdims=0)
        labels = model.labels
        kind = {"b": types.BOOL, "i": types.INT64}.get(labels.dtype.kind, types.STRING)
        graph.give(graph.node("Gather", graph.constant(labels), best), "label", kind, ["n"])
        graph.give(y, "probabilities", types.FLOAT, ["n", len(model.classes)])
    elif model.preprocess is not None:
        wide = graph.node("Reshape", graph.node("Cast", y, to=types.DOUBLE), flat)
        scaled = graph.node("Mul", wide, graph.constant(np.float64(model.preprocess.target_scale)))
        moved = graph.node("Add", scaled, graph.constant(np.float64(model.preprocess.target_mean)))
        graph.give(moved, "prediction", types.DOUBLE, ["n"])
    elif k == 1:
        graph.give(graph.node("Reshape", y, flat), "prediction", types.FLOAT, ["n"])
    else:
        graph.give(y, "prediction", types.FLOAT, ["n", k])
