"""A trained model in one file: the network, its weights, and the way from a table's columns to its inputs and back.

Reading and predicting need NumPy alone, so a model moves to machines without JAX.
"""

import dataclasses
import itertools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..tables.preprocess import Preprocess
from ..tables.tally import Tally
from . import network
from .container import read, write
from .error_bars import ErrorBars
from .errors import FileError

KIND = "model"
_LINK_OF_LOSS = {
    "Squared": "identity",
    "Huber": "identity",
    "Logistic": "logistic",
    "Softmax": "softmax",
    "Poisson": "exponential",
}


@dataclasses.dataclass(frozen=True, repr=False)
class Model:
    """A network that predicts.

    `layers` are (weight [inputs, outputs], bias [outputs]), input first; `link` leads from raw outputs to predictions
    ("identity", "logistic", "softmax", "exponential"); `info` is whatever was saved along.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> scax.save(path, net, params)
    >>> scax.load(path).predict(np.asarray(x)).shape
    (40,)
    """

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    activation: str
    output: str
    link: str
    preprocess: Preprocess | None = None
    info: dict[str, Any] = dataclasses.field(default_factory=dict)
    error_bars: ErrorBars | None = None

    def __repr__(self) -> str:
        weights = sum(weight.size + bias.size for weight, bias in self.layers)
        about = f"{'/'.join(map(str, self.widths))}, {self.activation}, {self.link}, {weights:,} weights"
        if self.preprocess is not None:
            schema = self.preprocess.schema
            used = len(schema.used)
            about += f", {schema.target.name!r} from {used} column{'s' * (used != 1)}"
        return f"Model({about})"

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs, hidden layers, outputs."""
        return (self.layers[0][0].shape[0], *(bias.shape[0] for _, bias in self.layers))

    @property
    def params(self) -> list[dict[str, np.ndarray]]:
        """The weights as scax.MLP(widths, activation, output) takes them."""
        return [{"weight": weight, "bias": bias} for weight, bias in self.layers]

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes in the order of predict_proba's columns; () for regression."""
        if self.preprocess is not None:
            return self.preprocess.schema.target.classes
        if self.link == "logistic" and self.widths[-1] == 1:
            return (0, 1)
        return tuple(range(self.widths[-1])) if self.link == "softmax" else ()

    @property
    def labels(self) -> np.ndarray:
        """The classes as an array: of booleans or whole numbers where all are, else of texts."""
        if all(isinstance(c, bool) for c in self.classes):
            return np.array(self.classes, bool)
        if all(isinstance(c, int) and not isinstance(c, bool) and abs(c) < 2**63 for c in self.classes):
            return np.array(self.classes, np.int64)
        return np.array([str(c) for c in self.classes], object)

    def outputs(self, x: Any, tally: Tally | None = None) -> np.ndarray:
        """Raw outputs [n, k]. `x`: with preprocessing, a table (a path, a data frame, a dict of columns, an array of
        raw columns); without, an array [n, d]."""
        return np.concatenate(list(self._outputs(x, tally)))

    def blocks(self, x: Any, tally: Tally | None = None) -> Iterator[np.ndarray]:
        """The predictions of `predict`, a block of rows at a time: for a table larger than memory."""
        return (self._prediction(z) for z in self._outputs(x, tally))

    def _outputs(self, x: Any, tally: Tally | None) -> Iterator[np.ndarray]:
        return map(self.encoded_outputs, self._encoded(x, tally))

    def _encoded(self, x: Any, tally: Tally | None) -> Iterator[np.ndarray]:
        """Rows as the network takes them, a block at a time."""
        if self.preprocess is not None:
            return self.preprocess.parts(x, tally)
        else:
            encoded = np.asarray(x)
            if encoded.ndim != 2 or encoded.shape[1] != self.widths[0] or encoded.dtype.kind not in "fiub":
                raise ValueError(
                    f"x has shape {encoded.shape} and type {encoded.dtype}: this model takes numbers of shape "
                    f"(n, {self.widths[0]})."
                )
            return iter([encoded])

    def _encoded_pieces(self, bars: ErrorBars, x: Any, tally: Tally | None) -> Iterator[np.ndarray]:
        return itertools.chain.from_iterable(map(bars.pieces, self._encoded(x, tally)))

    def encoded_outputs(self, x: np.ndarray) -> np.ndarray:
        """Raw outputs [n, k] of rows that are encoded already, [n, d]."""
        return network.forward(self.layers, self.activation, self.output, x)

    def predict(self, x: Any, tally: Tally | None = None) -> np.ndarray:
        """One prediction per row: a class as it stood in the table, or a number in the target's units.

        `tally`, if given, counts what was out of the ordinary in the table (see scax.tables.Tally).
        """
        return self._prediction(self.outputs(x, tally))

    def _prediction(self, z: np.ndarray) -> np.ndarray:
        if self.classes:
            best = (z[:, 0] > 0).astype(int) if z.shape[1] == 1 else z.argmax(axis=1)
            return self.labels[best]
        y = network.LINKS[self.link](z)
        if self.preprocess is not None:
            return self.preprocess.restore(y)
        return y[:, 0] if y.shape[1] == 1 else y

    def predict_interval(self, x: Any, coverage: float = 0.95, tally: Tally | None = None) -> np.ndarray:
        """[n, 2] (or [n, k, 2]) bounds that hold the share `coverage` of new targets, in the target's units."""
        bars = self._need_error_bars()
        if self.classes:
            raise ValueError("This model predicts classes, which have no interval: use predict_proba(calibrated=True).")
        parts = [bars.interval(part, coverage) for part in self._encoded_pieces(bars, x, tally)]
        return self._restored(np.concatenate(parts))

    def predict_std(self, x: Any, tally: Tally | None = None) -> np.ndarray:
        """The standard deviation of y around `predict`: noise, and what the network may be off."""
        bars = self._need_error_bars()
        std = np.concatenate([bars.predict(part)[1] for part in self._encoded_pieces(bars, x, tally)])
        return std[:, 0] * self._unit if std.shape[1] == 1 else std * self._unit

    def _need_error_bars(self) -> ErrorBars:
        if self.error_bars is None:
            raise ValueError(
                "This model has no error bars. `scax train` saves them, and so does scax.save with "
                "posterior=scax.posterior(...). Those of an estimator stay with it: call its own predict_interval."
            )
        return self.error_bars

    def _restored(self, bounds: np.ndarray) -> np.ndarray:
        """Bounds [n, k, 2] in the target's units."""
        if self.preprocess is not None:
            n, k, _ = bounds.shape
            ends = [np.reshape(self.preprocess.restore(bounds[:, :, i]), (n, k)) for i in range(2)]
            bounds = np.stack(ends, axis=2)
        return bounds[:, 0] if bounds.shape[1] == 1 else bounds

    @property
    def _unit(self) -> float:
        return 1.0 if self.preprocess is None else self.preprocess.target_scale

    def predict_proba(self, x: Any, tally: Tally | None = None, *, calibrated: bool = False) -> np.ndarray:
        """Probabilities [n, classes], columns in the order of `classes`; `calibrated`: corrected by the error bars."""
        if not self.classes:
            raise ValueError("This model predicts numbers, not classes: use predict.")
        if calibrated:
            bars = self._need_error_bars()
            return np.concatenate([bars.probabilities(part) for part in self._encoded_pieces(bars, x, tally)])
        p = network.LINKS[self.link](self.outputs(x, tally))
        return np.concatenate([1 - p, p], axis=1) if p.shape[1] == 1 else p

    def save(self, path: str | os.PathLike) -> None:
        """Write the model as one file, which `scax.load` reads."""
        write_model(path, self)

    def to_onnx(self, path: str | os.PathLike) -> None:
        """Write the model, its preprocessing included, as ONNX (needs the extra: pip install 'scax[onnx]').

        Inputs: "numbers", double [n, numeric and boolean columns], NaN where missing, and one string [n, 1] per
        category column under the column's name, "" where missing; without preprocessing "x", float [n, d].
        Outputs: "prediction" [n] for regression, else "label" [n] and "probabilities" [n, classes]. The network runs
        in float32. Error bars are left out: intervals and corrected probabilities are the model file's.
        """
        from .onnx import export

        export(self, path)


def save(
    path: str | os.PathLike,
    net: Any,
    params: Any,
    *,
    loss: Any = None,
    preprocess: Preprocess | None = None,
    info: dict[str, Any] | None = None,
    posterior: Any = None,
    follow: bool = True,
) -> None:
    """Save an MLP with its weights, and the preprocessing of its tables if it has one, as one file.

    `loss` (an instance or its name) says what the outputs mean: Logistic and Softmax give classes, Poisson a rate; None
    follows the preprocessing's target, or stands for numbers. `info` holds JSON values for people; `posterior` is what
    `scax.posterior` gave for this network, or ErrorBars: the file then predicts intervals, with NumPy alone. Where
    `path` is a symbolic link, the file that it points to is replaced, or with `follow=False` the link itself.

    >>> import tempfile
    >>> scax.save(tempfile.mkdtemp() + "/model.safetensors", net, params, info={"trained on": "forty rows"})
    """
    missing = [name for name in ("widths", "activation", "output") if not hasattr(net, name)]
    if missing:
        raise FileError(
            f"A model file describes a scax.MLP, got {type(net).__name__}. For another network save its weights with "
            "scax.storage.save_checkpoint."
        )
    layers = tuple((np.asarray(layer["weight"]), np.asarray(layer["bias"])) for layer in params)
    bars = posterior if posterior is None or isinstance(posterior, ErrorBars) else posterior.error_bars(net)
    link = _link(loss, preprocess, net)
    model = Model(layers, net.activation, net.output, link, preprocess, dict(info or {}), bars)
    _check(model, tuple(net.widths), "The model")
    write_model(path, model, follow=follow)


def write_model(path: str | os.PathLike, model: Model, *, follow: bool = True) -> None:
    """Save a Model again, for instance with other `info`."""
    arrays = {}
    for i, (weight, bias) in enumerate(model.layers):
        arrays[f"layers.{i}.weight"], arrays[f"layers.{i}.bias"] = weight, bias
    description = {
        "network": {
            "kind": "mlp",
            "widths": list(model.widths),
            "activation": model.activation,
            "output": model.output,
            "link": model.link,
        },
        "preprocess": None if model.preprocess is None else model.preprocess.to_json(),
        "info": model.info,
    }
    if model.error_bars is not None:
        description["error_bars"], more = model.error_bars.to_arrays()
        arrays |= more
    write(path, KIND, description, arrays, follow=follow)


def load(path: str | os.PathLike) -> Model:
    """The model in a file. Nothing in the file is executed; one that is damaged or too new is a FileError.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/model.safetensors"
    >>> scax.save(path, net, params, loss=scax.Logistic())
    >>> scax.load(path).predict_proba(np.asarray(x)).shape
    (40, 2)
    """
    contents = read(path, KIND)
    try:
        about, info = contents.description["network"], contents.description["info"]
        if about["kind"] != "mlp":
            raise FileError(f"{path} holds a network of the kind {about['kind']!r}, which this scax does not know.")
        widths = tuple(about["widths"])
        count = len(widths) - 1
        layers = tuple(
            (contents.arrays[f"layers.{i}.weight"], contents.arrays[f"layers.{i}.bias"]) for i in range(count)
        )
        description = contents.description["preprocess"]
        preprocess = None if description is None else Preprocess.from_json(description)
        bars = contents.description.get("error_bars")
        bars = None if bars is None else ErrorBars.from_arrays(bars, contents.arrays)
        model = Model(layers, about["activation"], about["output"], about["link"], preprocess, dict(info), bars)
        _check(model, widths, str(path))
    except FileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise FileError(f"{path} is damaged: its description does not fit its arrays. Use another copy.") from None
    return model


def _link(loss: Any, preprocess: Preprocess | None, net: Any) -> str:
    if loss is None:
        classes = () if preprocess is None else preprocess.schema.target.classes
        return "identity" if not classes else "logistic" if len(classes) == 2 else "softmax"
    name = loss if isinstance(loss, str) else type(loss).__name__
    if name not in _LINK_OF_LOSS:
        raise FileError(f"loss={name} is not one a model file knows: use one of {', '.join(_LINK_OF_LOSS)}.")
    return _LINK_OF_LOSS[name]


def _same_function(model: Model, bars: ErrorBars) -> bool:
    """Whether the members' average is the model, at a few points."""
    points = np.random.default_rng(0).standard_normal((16, model.widths[0]))
    with np.errstate(all="ignore"):
        z = model.encoded_outputs(points)
        average = np.mean([jacobian.outputs(points) for jacobian, _ in bars.members], axis=0)
    largest = np.abs(z[np.isfinite(z)]).max(initial=0)
    return np.allclose(average, z, rtol=1e-3, atol=1e-3 * float(largest), equal_nan=True)


def _check(model: Model, widths: tuple[int, ...], what: str) -> None:
    """Refuse a model whose parts do not fit together."""
    if len(widths) < 2 or widths[-1] < 1 or len(model.layers) != len(widths) - 1:
        raise FileError(f"{what} has {len(model.layers)} layers of weights for widths {widths}.")
    for i, (weight, bias) in enumerate(model.layers):
        if weight.shape != tuple(widths[i : i + 2]) or bias.shape != (widths[i + 1],):
            raise FileError(
                f"{what} has weights {weight.shape} and biases {bias.shape} in layer {i} of widths {widths}."
            )
        if weight.dtype.kind != "f" or bias.dtype != weight.dtype:
            raise FileError(f"{what} has weights of type {weight.dtype} in layer {i}: they must be float32 or float64.")
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise FileError(f"{what} has weights that are not finite in layer {i}.")
    for name, table in (("activation", network.ACTIVATIONS), ("output", network.ACTIVATIONS), ("link", network.LINKS)):
        if getattr(model, name) not in table:
            raise FileError(f"{what} has the {name} {getattr(model, name)!r}, which this scax does not know.")
    bars = model.error_bars
    if bars is not None:
        inside = {(jacobian.layers[0][0].shape[0], len(jacobian.offset)) for jacobian, _ in bars.members}
        if inside != {(widths[0], widths[-1])} or bars.link != model.link or not _same_function(model, bars):
            raise FileError(
                f"{what} has error bars of another network: call scax.posterior with the weights that are saved."
            )
    if model.preprocess is not None:
        schema = model.preprocess.schema
        if (schema.width, schema.outputs) != (widths[0], widths[-1]):
            raise FileError(
                f"{what} takes {widths[0]} inputs and gives {widths[-1]} outputs, but its table has {schema.width} "
                f"encoded features and needs {schema.outputs} outputs."
            )
