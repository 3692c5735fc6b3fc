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
#: What overflows shows in the result.
_as_the_network = np.errstate(over="ignore", under="ignore", invalid="ignore")


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

    def gram(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f [n, k] and J Jᵀ [n, k, n, k], by all weights but those of inputs that the network does not look at; and the
        first layer's g gᵀ, g = ∂f/∂h."""
        z, product, slopes = network.gram(self.layers, self.activation, self.output, np.asarray(x, np.float64))
        return z + self.offset, product, slopes

    def chunks(self, x: Any, outputs: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(rows, f [n, k], J [n, k, q]) for one chunk of rows after another."""
        sizes = [weight.size + bias.size for weight, bias in self.layers]
        last = len(self.support) > 0 and bool(self.support[0] >= sum(sizes[:-1]))
        width = sizes[-1] if last else sum(sizes)
        places = self.support - sum(sizes[:-1]) if last else self.support
        rows = int(np.clip(CHUNK // (outputs * width), 1, 4096))
        for start in range(0, max(len(x), 1), rows):
            part = np.asarray(x[start : start + rows], np.float64)
            z, j = network.jacobian(self.layers, self.activation, self.output, part, last)
            yield slice(start, start + len(part)), z + self.offset, j if len(places) == width else j[:, :, places]


@dataclasses.dataclass(frozen=True)
class ErrorBars:
    """What is to be said of y, or of a class, beside a prediction: a mixture of linearized posteriors.

    Member m gives f_m(x) and C_m(x) = J A⁻¹ Jᵀ. Their average f̄ is the prediction; T·mean C_m + mean (f_m − f̄)² is how
    far it may be off (the variance of the mixture), and the noise is added for y: σ², times e²ᵑ where it was found to
    vary with what the last layer sees. Everything in the network's units. Where other networks predict (the same ones,
    trained again on more rows), their `outputs` [n, k] take the place of f̄.
    """

    members: tuple[tuple[NetworkJacobian, Gaussian], ...]
    link: str
    temperature: np.ndarray  # T, one per output
    noise: np.ndarray | None  # σ², or Poisson's φ, one per output; None for classes
    studentized: np.ndarray  # residuals of rows that were left out, over their std, [m, k]
    spreads: tuple[Spread | None, ...] = ()  # how the noise varies, one per output
    calibration: tuple[float, float] = (1.0, 1.0)  # the factor of the logits, the share of their covariance

    def pieces(self, x: np.ndarray) -> Iterator[np.ndarray]:
        """The rows, so few at a time that the covariances and the features of them stay small."""
        rows = max(1, CHUNK // (2 * len(self.temperature) ** 2 + _feature_count(self.members[0][0].layers)))
        return (x[start : start + rows] for start in range(0, max(len(x), 1), rows))

    @_as_the_network
    def moments(self, x: np.ndarray, outputs: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """f̄ [n, k] and its covariance [n, k, k]."""
        z, c = zip(*(_moments(jacobian, gaussian, x) for jacobian, gaussian in self.members), strict=True)
        mean, within, between = mix(np.stack(z), np.stack(c))
        root = np.sqrt(self.temperature)
        return mean if outputs is None else outputs, root[:, None] * within * root + between

    @_as_the_network
    def predict(self, x: np.ndarray, outputs: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(center, std of y), [n, k] each."""
        if self.noise is None:
            raise ValueError("these error bars are of classes: use probabilities.")
        z, covariance = self.moments(x, outputs)
        variance = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0)
        return predictive(self.link, z, variance, self.noise * self.relative_noise(x))

    def relative_noise(self, x: np.ndarray) -> np.ndarray:
        """e²ᵑ [n, k], how much larger the noise is here than σ²."""
        factors = np.ones((len(x), len(self.temperature)))
        inputs = features(self.members[0][0], x) if any(self.spreads) else None
        for j, spread in enumerate(self.spreads):
            if spread is not None and inputs is not None:
                factors[:, j] = np.exp(2 * spread.log(inputs))
        return factors

    @_as_the_network
    def interval(self, x: np.ndarray, coverage: float, outputs: np.ndarray | None = None) -> np.ndarray:
        """[n, k, 2] bounds that hold the share `coverage` of new targets."""
        check_coverage(coverage)
        center, std = self.predict(x, outputs)
        factors = np.array([interval_factors(r, coverage) for r in self.studentized.T])
        bounds = center[:, :, None] + std[:, :, None] * factors
        return np.maximum(bounds, 0) if self.link == "exponential" else bounds

    @_as_the_network
    def probabilities(self, x: np.ndarray, outputs: np.ndarray | None = None) -> np.ndarray:
        """Class probabilities [n, classes], the uncertainty of the logits averaged over."""
        z, covariance = self.moments(x, outputs)
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
        activation, output = description["activation"], description["output"]
        members = []
        for m, about in enumerate(description["members"]):
            layers = [(arrays[f"bars.{m}.{i}.weight"], arrays[f"bars.{m}.{i}.bias"]) for i in range(about["layers"])]
            support, scale = arrays[f"bars.{m}.support"], arrays.get(f"bars.{m}.scale")
            factor = _unpacked(about["form"], arrays[f"bars.{m}.factor"], len(support))
            jacobian = NetworkJacobian(layers, activation, output, arrays[f"bars.{m}.offset"], support)
            members.append((jacobian, Gaussian(about["form"], factor, scale)))
        spreads: list[Spread | None] = []
        for j, constant in enumerate(description["spreads"]):
            if constant is None:
                spreads.append(None)
            else:
                center, scale, weights = arrays[f"bars.spread.{j}"]
                spreads.append(Spread(center, scale, weights, float(constant)))
        factor_of_logits, share = map(float, description["calibration"])
        bars = ErrorBars(
            tuple(members), description["link"], arrays["bars.temperature"], arrays.get("bars.noise"),
            arrays["bars.studentized"], tuple(spreads), (factor_of_logits, share),
        )  # fmt: skip
        bars.check()
        return bars

    def check(self) -> None:
        """A ValueError that names the part that does not fit the others, or has numbers that cannot be."""
        for jacobian, gaussian in self.members:
            _check_member(jacobian, gaussian)
        k = len(self.members[0][0].offset)
        if self.link not in network.LINKS or (self.noise is None) != (self.link in ("logistic", "softmax")):
            raise ValueError("a link")
        _check_numbers("a temperature", self.temperature, (k,), least=0)
        rows = self.studentized.shape[0] if self.studentized.ndim else 0
        if rows == 0:
            raise ValueError("residuals")
        _check_numbers("residuals", self.studentized, (rows, k))
        if self.noise is not None:
            _check_numbers("a noise", self.noise, (k,), least=0)
        _check_numbers("a calibration", np.array(self.calibration), (2,), least=0)
        if len(self.spreads) not in (0, k):
            raise ValueError("spreads")
        width = _feature_count(self.members[0][0].layers)
        for spread in self.spreads:
            if spread is not None:
                _check_numbers("a spread", np.stack([spread.center, spread.weights]), (2, width))
                _check_numbers("a spread", spread.scale, (width,), least=1e-30)
                _check_numbers("a spread", np.array(spread.constant), ())


def _check_member(jacobian: NetworkJacobian, gaussian: Gaussian) -> None:
    sizes = [jacobian.layers[0][0].shape[0]]
    for weight, bias in jacobian.layers:
        sizes.append(bias.size)
        _check_numbers("a layer", weight, tuple(sizes[-2:]))
        _check_numbers("a layer", bias, (sizes[-1],))
    if not {jacobian.activation, jacobian.output} <= set(network.ACTIVATIONS):
        raise ValueError("an activation")
    _check_numbers("an offset", jacobian.offset, (sizes[-1],))
    support, count = jacobian.support, sum(weight.size + bias.size for weight, bias in jacobian.layers)
    if support.ndim != 1 or support.dtype.kind != "i" or np.any(support[1:] <= support[:-1]):
        raise ValueError("a support")
    if np.any((support < 0) | (support >= count)):
        raise ValueError("a support")
    q = len(support)
    if gaussian.form not in ("weights", "rows") or (gaussian.form == "rows") != (gaussian.scale is not None):
        raise ValueError("a form")
    if gaussian.scale is not None:
        _check_numbers("a scale", gaussian.scale, (q,), least=0)
    _check_numbers("a factor", gaussian.factor, (q if gaussian.form == "weights" else len(gaussian.factor), q))


def _check_numbers(what: str, numbers: np.ndarray, shape: tuple[int, ...], least: float = -np.inf) -> None:
    """Finite floating-point numbers of this shape."""
    if numbers.dtype.kind != "f" or numbers.shape != shape or not np.isfinite(numbers).all() or np.any(numbers < least):
        raise ValueError(what)


def features(jacobian: NetworkJacobian, x: np.ndarray) -> np.ndarray:
    """What may say how large the noise is: what the last layer of a member sees, and inputs unless they are many."""
    x = np.asarray(x, np.float64)
    hidden = network.last_hidden(jacobian.layers, jacobian.activation, x)
    return hidden if _sees_hidden(jacobian.layers) else np.hstack([x, hidden])


def _sees_hidden(layers: Layers) -> bool:
    """Whether `features` are those of the last layer alone."""
    return len(layers) == 1 or layers[0][0].shape[0] > MOST_INPUTS


def _feature_count(layers: Layers) -> int:
    return layers[-1][0].shape[0] + (0 if _sees_hidden(layers) else layers[0][0].shape[0])


def _packed(gaussian: Gaussian) -> np.ndarray:
    """The factor in single precision; of a triangle, its rows behind each other."""
    factor = gaussian.factor.astype(np.float32)
    if gaussian.form == "rows":
        return factor
    return np.concatenate([np.empty(0, np.float32), *(row[: i + 1] for i, row in enumerate(factor))])


def _unpacked(form: str, packed: np.ndarray, side: int) -> np.ndarray:
    if packed.dtype.kind != "f":
        raise ValueError("a factor")
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
