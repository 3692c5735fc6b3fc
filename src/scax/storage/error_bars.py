"""Error bars of networks in NumPy alone: what a model file keeps of a posterior."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._gaussian import Gaussian, Spread, check_coverage, corrected_probabilities, interval_factors, predictive
from . import network

#: Numbers of J that are formed at once (64 MB), and studentized residuals that a file keeps at most.
CHUNK, MOST_RESIDUALS = 2**23, 2000
#: Inputs that may say how large the noise is, at most.
MOST_INPUTS = 100
Layers = Sequence[tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class NetworkJacobian:
    """f and J of one MLP, by the weights in `support`; what `scax.uncertainty` asks of a Jacobian."""

    layers: Layers
    activation: str
    output: str
    offset: np.ndarray  # added to the outputs
    support: np.ndarray  # places in w

    @staticmethod
    def of(
        layers: Layers, activation: str, output: str, offset: Any = 0.0, *, last: bool = False, sparse: bool = False
    ) -> "NetworkJacobian":
        """By all weights, or those of the `last` layer; of a `sparse` network, those that are not exactly zero. Weights
        of inputs that the network does not look at stay zero."""
        layers = [(w.astype(np.float64), b.astype(np.float64)) for w, b in layers]
        offset = np.broadcast_to(np.asarray(offset, np.float64), layers[-1][1].shape)
        every = NetworkJacobian(layers, activation, output, offset, np.empty(0, int))
        w, size = every.w, layers[-1][0].size + layers[-1][1].size
        first, bias = layers[0]
        unseen = np.concatenate([np.zeros(bias.size, bool), np.repeat(~first.any(axis=1), first.shape[1])])
        free = np.concatenate([~unseen, np.ones(len(w) - unseen.size, bool)])
        places = np.flatnonzero(w if sparse else free)
        return dataclasses.replace(every, support=places[places >= len(w) - size] if last else places)

    @property
    def w(self) -> np.ndarray:
        return np.concatenate([part.ravel() for weight, bias in self.layers for part in (bias, weight)])

    def outputs(self, x: np.ndarray) -> np.ndarray:
        return network.forward(self.layers, self.activation, self.output, np.asarray(x, np.float64)) + self.offset

    def chunks(self, x: Any, outputs: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(rows, f [n, k], J [n, k, q]) for one chunk of rows after another."""
        sizes = [weight.size + bias.size for weight, bias in self.layers]
        last = len(self.support) > 0 and bool(self.support[0] >= sum(sizes[:-1]))
        width = sizes[-1] if last else sum(sizes)
        places = self.support - sum(sizes[:-1]) if last else self.support
        rows = int(np.clip(CHUNK // (outputs * width), 1, 4096))
        for start in range(0, len(x), rows):
            part = np.asarray(x[start : start + rows], np.float64)
            z, j = network.jacobian(self.layers, self.activation, self.output, part, last)
            yield slice(start, start + len(part)), z + self.offset, j if len(places) == width else j[:, :, places]


@dataclasses.dataclass(frozen=True)
class ErrorBars:
    """What is to be said of y, or of a class, beside a prediction: a mixture of linearized posteriors.

    Member m gives f_m(x) and C_m(x) = J A⁻¹ Jᵀ. Their average f̄ is the prediction; T·mean C_m + mean (f_m − f̄)² is how
    far it may be off (the variance of the mixture), and the noise is added for y: σ², times e²ᵑ where it was found to
    vary with what the last layer sees. Everything in the network's units.
    """

    members: tuple[tuple[NetworkJacobian, Gaussian], ...]
    link: str
    temperature: np.ndarray  # T, one per output
    noise: np.ndarray | None  # σ², or Poisson's φ, one per output; None for classes
    studentized: np.ndarray  # residuals of rows that were left out, over their std, [m, k]
    spreads: tuple[Spread | None, ...] = ()  # how the noise varies, one per output
    calibration: tuple[float, float] = (1.0, 1.0)  # the factor of the logits, the share of their covariance

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """f̄ [n, k] and its covariance [n, k, k]."""
        z, c = zip(*(_moments(jacobian, gaussian, x) for jacobian, gaussian in self.members), strict=True)
        mean, within, between = mix(np.stack(z), np.stack(c))
        root = np.sqrt(self.temperature)
        return mean, root[:, None] * within * root + between

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(center, std of y), [n, k] each."""
        if self.noise is None:
            raise ValueError("these error bars are of classes: use probabilities.")
        z, covariance = self.moments(x)
        variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0)
        return predictive(self.link, z, variance, self.noise * self.relative_noise(x))

    def relative_noise(self, x: np.ndarray) -> np.ndarray:
        """e²ᵑ [n, k], how much larger the noise is here than σ²."""
        found = np.ones((len(x), len(self.temperature)))
        seen = features(self.members[0][0], x) if any(self.spreads) else None
        for j, spread in enumerate(self.spreads):
            if spread is not None and seen is not None:
                found[:, j] = np.exp(2 * spread.log(seen))
        return found

    def interval(self, x: np.ndarray, coverage: float) -> np.ndarray:
        """[n, k, 2] bounds that hold the share `coverage` of new targets."""
        check_coverage(coverage)
        center, std = self.predict(x)
        factors = np.array([interval_factors(r, coverage) for r in self.studentized.T])
        bounds = center[:, :, None] + std[:, :, None] * factors
        return np.maximum(bounds, 0) if self.link == "exponential" else bounds

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Class probabilities [n, classes], the uncertainty of the logits averaged over."""
        z, covariance = self.moments(x)
        t, spread = self.calibration
        return corrected_probabilities(t * z, spread * t**2 * covariance)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """(description, arrays) for a file."""
        arrays = {"bars.temperature": self.temperature, "bars.studentized": self.studentized}
        if self.noise is not None:
            arrays["bars.noise"] = self.noise
        for j, spread in enumerate(self.spreads):
            if spread is not None:
                arrays[f"bars.spread.{j}"] = np.stack([spread.center, spread.scale, spread.weights])
        about = []
        for m, (jacobian, gaussian) in enumerate(self.members):
            arrays[f"bars.{m}.factor"], arrays[f"bars.{m}.support"] = _packed(gaussian), jacobian.support
            if gaussian.scale is not None:
                arrays[f"bars.{m}.scale"] = gaussian.scale
            arrays[f"bars.{m}.offset"] = np.ascontiguousarray(jacobian.offset)
            for i, (weight, bias) in enumerate(jacobian.layers):
                arrays[f"bars.{m}.{i}.weight"], arrays[f"bars.{m}.{i}.bias"] = weight, bias
            about.append({"form": gaussian.form, "layers": len(jacobian.layers)})
        first = self.members[0][0]
        constants = [None if spread is None else spread.constant for spread in self.spreads]
        description = {"link": self.link, "spreads": constants, "calibration": list(self.calibration), "members": about}
        return description | {"activation": first.activation, "output": first.output}, arrays

    @staticmethod
    def from_arrays(description: dict[str, Any], arrays: dict[str, np.ndarray]) -> "ErrorBars":
        """As `to_arrays` gave them; a KeyError, TypeError or ValueError where they do not fit together."""
        members = []
        for m, about in enumerate(description["members"]):
            layers = [(arrays[f"bars.{m}.{i}.weight"], arrays[f"bars.{m}.{i}.bias"]) for i in range(about["layers"])]
            support = arrays[f"bars.{m}.support"]
            factor = _unpacked(about["form"], arrays[f"bars.{m}.factor"], len(support))
            for (weight, bias), before in zip(layers, [None, *layers], strict=False):
                if weight.ndim != 2 or bias.shape != weight.shape[1:] or weight.dtype.kind != "f":
                    raise ValueError("a layer")
                if before is not None and weight.shape[0] != before[1].shape[0]:
                    raise ValueError("layers that do not follow each other")
            size = sum(weight.size + bias.size for weight, bias in layers)
            scale = arrays.get(f"bars.{m}.scale")
            if about["form"] not in ("weights", "rows") or (about["form"] == "rows") != (scale is not None):
                raise ValueError("a form")
            if support.ndim != 1 or support.dtype.kind != "i" or factor.shape[1:] != support.shape or not len(support):
                raise ValueError("a support")
            if support.min() < 0 or support.max() >= size or np.any(np.diff(support) <= 0):
                raise ValueError("a support")
            if scale is not None and scale.shape != support.shape:
                raise ValueError("a scale")
            if description["activation"] not in network.ACTIVATIONS or description["output"] not in network.ACTIVATIONS:
                raise ValueError("an activation")
            offset = arrays[f"bars.{m}.offset"]
            if offset.shape != layers[-1][1].shape:
                raise ValueError("an offset")
            jacobian = NetworkJacobian(layers, description["activation"], description["output"], offset, support)
            members.append((jacobian, Gaussian(about["form"], factor, scale)))
        k = len(members[0][0].offset)
        spreads: list[Spread | None] = []
        for j, constant in enumerate(description["spreads"]):
            if constant is None:
                spreads.append(None)
                continue
            width = features(members[0][0], np.zeros((1, members[0][0].layers[0][0].shape[0]))).shape[1]
            if (spread := arrays[f"bars.spread.{j}"]).shape != (3, width):
                raise ValueError("a spread")
            center, scale, weights = spread
            spreads.append(Spread(center, scale, weights, float(constant)))
        factor_of_logits, share = map(float, description["calibration"])
        bars = ErrorBars(
            tuple(members), description["link"], arrays["bars.temperature"], arrays.get("bars.noise"),
            arrays["bars.studentized"], tuple(spreads), (factor_of_logits, share),
        )  # fmt: skip
        sizes = [
            bars.temperature.shape,
            *([] if bars.noise is None else [bars.noise.shape, bars.studentized.shape[1:]]),
        ]
        if (
            len(spreads) not in (0, k)
            or bars.link not in network.LINKS
            or any(size != (k,) for size in sizes)
            or bars.studentized.ndim != 2
        ):
            raise ValueError("numbers of outputs")
        values = [part for name, part in arrays.items() if name.startswith("bars.spread.")]
        values += [bars.temperature, bars.studentized, *(g.factor for _, g in members), np.array(bars.calibration)]
        if not all(np.isfinite(value).all() for value in values):
            raise ValueError("numbers that are not finite")
        return bars


def features(jacobian: NetworkJacobian, x: np.ndarray) -> np.ndarray:
    """What may say how large the noise is: what the last layer of a member sees, and inputs unless they are many."""
    x = np.asarray(x, np.float64)
    hidden = network.last_hidden(jacobian.layers, jacobian.activation, x)
    return hidden if len(jacobian.layers) == 1 or x.shape[1] > MOST_INPUTS else np.hstack([x, hidden])


def _packed(gaussian: Gaussian) -> np.ndarray:
    """The factor in single precision; of a triangle, its rows behind each other."""
    factor = gaussian.factor.astype(np.float32)
    if gaussian.form == "rows":
        return factor
    return np.concatenate([row[: i + 1] for i, row in enumerate(factor)])


def _unpacked(form: str, packed: np.ndarray, side: int) -> np.ndarray:
    if form == "rows":
        return packed.astype(np.float64)
    if packed.shape != (side * (side + 1) // 2,):
        raise ValueError("a factor")
    factor, ends = np.zeros((side, side)), np.cumsum(np.arange(side + 1))
    for i, (start, end) in enumerate(itertools.pairwise(ends)):
        factor[i, : i + 1] = packed[start:end]
    return factor


def mix(z: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean f̄ [n, k], mean covariance within members and the covariance between them, of [M, n, k] and [M, n, k, k]."""
    mean = z.mean(axis=0)
    apart = z - mean
    return mean, c.mean(axis=0), np.einsum("mnk,mnl->nkl", apart, apart) / len(z)


def _moments(jacobian: NetworkJacobian, gaussian: Gaussian, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [(z, gaussian.covariance(j)) for _, z, j in jacobian.chunks(x, len(jacobian.offset))]
    return np.concatenate([z for z, _ in parts]), np.concatenate([c for _, c in parts])
