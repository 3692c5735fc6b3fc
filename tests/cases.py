"""The tables every test draws from: losses with data that suits them, regularizers, networks.

A new loss or regularizer is added here once, and the derivative, prox and agreement tests follow.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import scax


@dataclasses.dataclass(frozen=True)
class LossCase:
    """A loss, the numbers of outputs it serves, and how targets for it are drawn."""

    loss: scax.Loss
    outputs: tuple[int, ...]
    targets: Callable[[np.random.Generator, int, int], np.ndarray]

    def draw(self, seed: int, n: int, k: int, dtype=np.float64) -> np.ndarray:
        y = self.targets(np.random.default_rng(seed), n, k)
        return y if y.dtype.kind == "i" else y.astype(dtype)


def _probabilities(rng, n, k):
    return rng.dirichlet(np.ones(k), n)


LOSSES: dict[str, LossCase] = {
    "squared": LossCase(scax.Squared(), (1, 3), lambda rng, n, k: rng.normal(size=(n, k))),
    "logistic": LossCase(scax.Logistic(), (1, 3), lambda rng, n, k: rng.integers(0, 2, (n, k)).astype(float)),
    "softmax": LossCase(scax.Softmax(), (3,), lambda rng, n, k: rng.integers(0, k, n)),
    "softmax-probabilities": LossCase(scax.Softmax(), (3,), _probabilities),
    "huber": LossCase(scax.Huber(0.7), (1, 3), lambda rng, n, k: 2 * rng.normal(size=(n, k))),
    "poisson": LossCase(scax.Poisson(), (1, 3), lambda rng, n, k: rng.poisson(1.5, (n, k)).astype(float)),
}

#: every (loss, number of outputs) there is
LOSS_OUTPUTS = [(name, k) for name, case in LOSSES.items() for k in case.outputs]


def groups_of_three(size: int) -> scax.Groups:
    """Groups 0 0 0 1 1 1 …; the last may be smaller."""
    return scax.Groups.of(np.arange(size) // 3)


#: regularizers of `size` weights, strong enough that some weights are exactly zero or on a bound
REGULARIZERS: dict[str, Callable[[int], scax.Regularizer]] = {
    "l2": lambda size: scax.L2(0.02),
    "l2+l2": lambda size: scax.L2(0.005) + scax.L2(0.015),
    "l1": lambda size: scax.L1(0.05),
    "elastic-net": lambda size: scax.ElasticNet(0.08, 0.6),
    "l1+l2": lambda size: scax.L1(0.05) + scax.L2(0.03),
    "group": lambda size: scax.GroupLasso(0.04, groups_of_three(size)),
    "group+l1+l2": lambda size: scax.GroupLasso(0.03, groups_of_three(size)) + scax.L1(0.01) + scax.L2(0.01),
    "box": lambda size: scax.Box(0.4),
    "box+l1": lambda size: scax.Box(0.4) + scax.L1(0.03),
    "box+box": lambda size: scax.Box(0.4) + scax.Box(0.6) + scax.L2(0.01),
    "group+box": lambda size: scax.GroupLasso(0.03, groups_of_three(size)) + scax.Box(0.4),
    "all": lambda size: scax.GroupLasso(0.03, groups_of_three(size)) + scax.L1(0.005) + scax.L2(0.01) + scax.Box(0.4),
    "log-sum": lambda size: scax.LogSum(0.3) + scax.L2(0.01),
    "log-sum-groups": lambda size: scax.LogSum(0.2, groups_of_three(size), epsilon=0.1),
    "support": lambda size: scax.Support(np.arange(size) % 3 != 1) + scax.L2(0.02),
}
SMOOTH = ["l2", "l2+l2"]
NONSMOOTH = [name for name in REGULARIZERS if name not in SMOOTH]


def convexified(name: str, size: int) -> scax.Regularizer:
    """The regularizer of the table where it is convex, else the convex one that stands for it at some weights."""
    return REGULARIZERS[name](size).majorizer(jnp.asarray(np.random.default_rng(6).uniform(-0.4, 0.4, size)))


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a regularizer is made of, read off its pieces: the formulas in the tests use nothing else of it."""

    ridge: float
    l1: float | np.ndarray  # one number, or one for each weight
    group: float | np.ndarray  # likewise for each group
    ids: np.ndarray | None
    bound: float
    free: np.ndarray | bool  # which weights may differ from zero

    @staticmethod
    def of(regularizer: scax.Regularizer, w: np.ndarray | None = None) -> "Parts":
        """Of one that is not convex, the parts of its tangent at w."""
        ridge, l1, group, ids, bound, free = 0.0, 0.0, 0.0, None, np.inf, True
        for part in getattr(regularizer, "parts", (regularizer,)):
            match part:
                case scax.L2():
                    ridge += float(part.strength)
                case scax.L1():
                    l1 = l1 + np.asarray(part.strength)
                case scax.ElasticNet():
                    l1 += float(part.strength * part.l1_ratio)
                    ridge += float(part.strength * (1 - part.l1_ratio))
                case scax.GroupLasso():
                    group, ids = np.asarray(part.strength), np.asarray(part.groups.ids)
                case scax.LogSum(groups=None):  # d/d|w| of ε log(1 + |w|/ε) is ε/(|w| + ε)
                    l1 = l1 + part.strength * part.epsilon / (np.abs(w) + part.epsilon)
                case scax.LogSum():
                    ids = np.asarray(part.groups.ids)
                    scale = part.epsilon * np.sqrt(np.bincount(ids))
                    group = part.strength * scale / (np.sqrt(np.bincount(ids, w**2)) + scale)
                case scax.Box():
                    bound = min(bound, float(part.bound))
                case scax.Support():
                    free = np.asarray(part.free)
        return Parts(ridge, l1, group, ids, bound, free)

    def nonsmooth(self, w: np.ndarray) -> float:
        """R without its ridge."""
        value = np.sum(self.l1 * np.abs(w))
        for p, threshold in self.members():
            value += threshold * np.linalg.norm(w[p])
        inside = (np.abs(w) <= self.bound * (1 + 1e-12)) & (self.free | (w == 0))
        return value if np.all(inside) else np.inf

    def prox(self, w: np.ndarray, step: float) -> np.ndarray:
        """argmin_x  ½‖x − w‖² + step · nonsmooth(x)."""
        x = np.sign(w) * np.maximum(np.abs(w) - step * self.l1, 0)
        for p, threshold in self.members():
            x[p] = _group_in_box(x[p], step * threshold, self.bound)
        return np.where(self.free, np.clip(x, -self.bound, self.bound), 0)

    def members(self) -> list[tuple[np.ndarray, float]]:
        """The weights of each group, and what its norm is multiplied with: strength · √size."""
        if self.ids is None:
            return []
        sizes = np.bincount(self.ids)
        thresholds = np.broadcast_to(self.group, sizes.shape) * np.sqrt(sizes)
        return [(np.flatnonzero(self.ids == p), threshold) for p, threshold in enumerate(thresholds)]

    def violation(self, w: np.ndarray, slope: np.ndarray) -> float:
        """dist(−slope, ∂nonsmooth(w)): zero where w minimizes (smooth part with this slope) + nonsmooth.

        Away from zero a group pulls along w_p/‖w_p‖; at zero it absorbs whatever ℓ1 leaves of the slope, up to its
        threshold. ℓ1 pulls by its strength along the sign, or anything between at zero; a bound holds what pushes out.
        """
        pull, l1s = -slope, np.broadcast_to(self.l1, w.shape)
        missing = np.zeros_like(w)
        for p, threshold in self.members() or [(np.arange(len(w)), 0.0)]:
            r, x, l1 = pull[p], w[p], l1s[p]
            if self.ids is not None:
                if not np.any(x):
                    left = np.linalg.norm(np.sign(r) * np.maximum(np.abs(r) - l1, 0))
                    missing[p[0]] = max(left - threshold, 0)
                    continue
                r = r - threshold * x / np.linalg.norm(x)
            off = np.where(x == 0, np.maximum(np.abs(r) - l1, 0), np.abs(r - l1 * np.sign(x)))
            outward = (np.abs(x) >= self.bound * (1 - 1e-7)) & (np.sign(x) * r - l1 >= 0)
            missing[p] = np.where(outward, 0, off)
        return float(np.linalg.norm(np.where(self.free, missing, 0)))


def _group_in_box(w, threshold, bound):
    """argmin ½‖x − w‖² + threshold‖x‖ with |x| ≤ bound: clip(w t/(t + threshold)) at the t that equals its norm."""
    norm = np.linalg.norm(w)
    if norm <= threshold:
        return np.zeros_like(w)
    if np.all(np.abs(w) * (1 - threshold / norm) <= bound):
        return w * (1 - threshold / norm)
    low, high = 0.0, norm
    for _ in range(100):
        t = (low + high) / 2
        low, high = (t, high) if np.linalg.norm(np.clip(w * t / (t + threshold), -bound, bound)) > t else (low, t)
    return np.clip(w * t / (t + threshold), -bound, bound)


# -- networks: any pure function of (params, x) --------------------------------------------------


@functools.cache  # the same object every time: what is compiled for it is compiled once
def mlp(k: int = 1, widths: tuple[int, ...] = (3, 4)) -> scax.MLP:
    return scax.MLP((*widths, k), activation="tanh")


def start(net: scax.MLP, seed: int, dtype=np.float64):
    """Weights inside every box of the table, biases not zero, the same numbers in every precision."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(net.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(rng.uniform(-0.4, 0.4, leaf.shape), dtype), shapes)


def rows(seed: int, n: int, d: int = 3, dtype=np.float64) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def convolution(params, x):
    """Images [n, 6, 6, 1] → one convolution, a pooling, one dense layer."""
    z = jax.lax.conv_general_dilated(x, params["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    z = jnp.tanh(z + params["shift"])
    z = z.reshape(-1, 3, 2, 3, 2, z.shape[-1]).mean(axis=(2, 4)).reshape(x.shape[0], -1)
    return z @ params["out"]


def convolution_params(seed: int, k: int = 1):
    rng = np.random.default_rng(seed)
    return {
        "kernel": jnp.asarray(0.5 * rng.normal(size=(3, 3, 1, 2)), float),
        "shift": jnp.zeros(2),
        "out": jnp.asarray(0.3 * rng.normal(size=(18, k)), float),
    }


def recurrent(params, x):
    """Sequences [n, t, d] → a tanh cell by `lax.scan`, the last state read out; gives [n]."""

    def cell(h, u):
        h = jnp.tanh(u @ params["in"] + h @ params["loop"] + params["bias"])
        return h, None

    h, _ = jax.lax.scan(cell, jnp.zeros((x.shape[0], params["loop"].shape[0]), x.dtype), jnp.swapaxes(x, 0, 1))
    return h @ params["out"]


def recurrent_params(seed: int, d: int = 2, width: int = 5):
    rng = np.random.default_rng(seed)
    return {
        "in": jnp.asarray(0.5 * rng.normal(size=(d, width)), float),
        "loop": jnp.asarray(0.3 * rng.normal(size=(width, width)), float),
        "bias": jnp.zeros(width),
        "out": jnp.asarray(0.5 * rng.normal(size=width), float),
    }
