"""Error bars of networks that are averaged: what their rows say of y, and how far to trust it.

Every member m is linearized by itself and gives f_m(x) and C_m(x) = J A⁻¹ Jᵀ. The prediction is their average, whose
leave-one-out outputs are the average of the members' own. One number is then estimated for each target, from residuals
e of rows that were left out (in closed form, by training again without them, or by being held out):

    σ²:  mean e²/(σ² (V + b·mean C_m) + mean (f_m − f̄)²) = 1        b = 2 for Squared, 1 for Huber and Poisson

V is 1, or the rate of a Poisson, times e²ᵑ where the size of the residuals depends on the row. For one
member and the squared loss that is σ² = mean e_i²/(1 − h_i).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._gaussian import calibration, dispersion, fit_spread, predictive
from ..losses import Logistic, Loss, Poisson, Softmax, Squared
from ..storage.error_bars import MOST_RESIDUALS, ErrorBars, Layers, NetworkJacobian, features, mix
from .fit import check_prior, estimate_temperature, fit, of_kernel
from .jacobian import Jacobian, of_loss
from .posterior import Posterior, Rows, log_evidence, one_hot
from .scaled import Scaled

#: Rows of which the posterior is made, and rows held out that calibrate it, at most.
MOST_ROWS = 20_000
#: Rows by which probabilities are calibrated at most.
MOST_CALIBRATED = 4000
#: The side of a system up to which members have a posterior on all weights; on the last layer beyond, where rows that
#: were held out say how far the bars are off.
SMALL_SIDE = 1500

#: The share of all effective weights below which a column has none.
NOTHING = 1e-12


def error_bars(
    networks: Sequence[Layers],
    activation: str,
    output: str,
    offset: Any,
    loss: Loss,
    ridge: float,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    *,
    total: float | None = None,
    units: Sequence[np.ndarray] | None = None,
    sparse: bool = False,
    left_out: np.ndarray | None = None,
) -> ErrorBars:
    """Of MLPs that are averaged, `offset` added to their outputs.

    `rows` (x, y [n, k], weight) were trained on, `total` the weight of all of them where these are some; `held_out`
    rows were not. `units` [M, d]: the prior is of the first layer's weights over these. `left_out` [M, n, k]: outputs
    for `rows` of networks trained without them, in place of the closed form.
    """
    x, y, weight = rows
    k = y.shape[1]
    scale = 1.0 if total is None else total / weight.sum()
    weights = sum(w.size + b.size for w, b in networks[0])
    if weights <= SMALL_SIDE or (held_out is None and len(x) * k <= SMALL_SIDE):
        form = "weight-space" if weights <= len(x) * k or ridge == 0 else "sample-space"
    else:
        form = "last-layer" if held_out is not None else "low-rank"
    data = Rows(x, y, weight, k, scale)
    jacobians = [
        NetworkJacobian.of(layers, activation, output, offset, last=form == "last-layer", sparse=sparse)
        for layers in networks
    ]
    _check_enough(len(x), k, len(y if held_out is None else held_out[1]), ridge, jacobians)
    if form == "weight-space" and ridge == 0:
        ridge = 1e-10  # a direction that no row looks along keeps a wide prior
    each = [_units(jacobian, None if units is None else units[m]) for m, jacobian in enumerate(jacobians)]
    posts = [
        fit(InUnits(jacobian, unit), loss, data, ridge, form, temperature=1.0)
        for jacobian, unit in zip(jacobians, each, strict=True)
    ]
    is_class = isinstance(loss, (Logistic, Softmax))
    link = ("logistic" if isinstance(loss, Logistic) else "softmax") if is_class else "identity"
    link = "exponential" if isinstance(loss, Poisson) else link
    if held_out is None:
        z, c = zip(*(post.leave_one_out_outputs for post in posts), strict=True)
        z, truth, count = z if left_out is None else tuple(left_out), y, weight
    else:
        z, c = zip(*(_moments(post, held_out[0]) for post in posts), strict=True)
        truth, count = held_out[1], held_out[2]
    mean, within, between = mix(np.stack(z), np.stack(c))
    members = tuple(
        (jacobian, post.gaussian.in_units(unit[jacobian.support]))
        for jacobian, unit, post in zip(jacobians, each, posts, strict=True)
    )
    if is_class:
        some = slice(None, None, -(-len(mean) // MOST_CALIBRATED))
        found = calibration(mean[some], (within + between)[some], one_hot(truth[some]), count[some])
        return ErrorBars(members, link, np.ones(k), None, np.zeros((1, k)), (), found)
    bend = 2.0 if isinstance(loss, Squared) else 1.0
    own, other = (np.maximum(np.diagonal(part, axis1=1, axis2=2), 0) for part in (bend * within, between))
    seen = features(jacobians[0], x if held_out is None else held_out[0])
    rate = np.exp(np.minimum(mean, 700)) if link == "exponential" else np.ones_like(mean)
    center = rate if link == "exponential" else mean
    varies, noise, spreads = np.ones_like(mean), np.empty(k), []
    for j in range(k):
        error, here = truth[:, j] - center[:, j], rate[:, j]

        # by the delta method, in the units of the counts
        def scale_of(noisy: np.ndarray, j: int = j, error: np.ndarray = error, here: np.ndarray = here) -> float:
            return dispersion(error, here * noisy + here**2 * own[:, j], here**2 * other[:, j], count)

        noise[j] = scale_of(varies[:, j])
        size = np.abs(error) / np.sqrt(noise[j] * (here + here**2 * own[:, j]) + here**2 * other[:, j])
        found = fit_spread(seen, size, count)
        spreads.append(None if found is None else found[0])
        if found is not None:
            varies[:, j] = np.exp(2 * found[1])
            noise[j] = scale_of(varies[:, j])
    center, std = predictive(link, mean, noise * own + other, noise * varies)
    studentized = np.stack([_levels(r, count) for r in ((truth - center) / std).T], axis=1)
    return ErrorBars(members, link, bend * noise, noise, studentized, tuple(spreads))


def of_posterior(post: Posterior, network: Any) -> ErrorBars:
    """What a model file keeps of `scax.posterior` of an MLP."""
    if not all(hasattr(network, name) for name in ("widths", "activation", "output")):
        raise TypeError(f"a model file describes a scax.MLP, got {type(network).__name__}.")
    layers, support, unit = _own_weights(post)
    widths = (len(layers[0][0]), *(len(bias) for _, bias in layers))
    if widths != tuple(network.widths):
        one, other = ("/".join(map(str, each)) for each in (widths, network.widths))
        raise ValueError(f"the posterior is of a {one} network, and the model is a {other} network.")
    jacobian = NetworkJacobian.of(layers, network.activation, network.output)
    members = ((dataclasses.replace(jacobian, support=support), post.gaussian.in_units(unit)),)
    k, loss = post.rows.outputs, post.loss
    temperature = np.full(k, post.temperature)
    if isinstance(loss, (Logistic, Softmax)):
        link = "logistic" if isinstance(loss, Logistic) else "softmax"
        return ErrorBars(members, link, temperature, None, np.zeros((1, k)), (), post.calibration)
    link = "exponential" if isinstance(loss, Poisson) else "identity"
    noise = np.ones(k) if isinstance(loss, Poisson) else np.broadcast_to(np.asarray(post.noise) ** 2, (k,)).copy()
    studentized = np.stack([_levels(r, post.rows.weight) for r in post.studentized().T], axis=1)
    return ErrorBars(members, link, temperature, noise, studentized)


def by_evidence(
    jacobian: NetworkJacobian, loss: Loss, rows: Rows, ridge: float, group: np.ndarray, least_free: float = 0.0
) -> tuple[float, np.ndarray, float]:
    """log p(y | x, ridge), and MacKay's fixed points Tγ_g/(N‖w_g‖²) for each group of inputs and for all other weights.

    `group` [d] has the number of every input's group. In sample space, without J: weights of group g add K_g to the
    kernel K, and γ_g = tr((K + I)⁻¹ K_g); an input x_j adds (g gᵀ)·(x_j x_jᵀ), g the slopes of the first layer.
    """
    check_prior(prior := rows.total * ridge)
    x, count = np.asarray(rows.x, np.float64), rows.count * rows.outputs
    z, k, slopes = jacobian.gram(x)
    f = of_loss(loss, "factor", z, rows.y)
    f = f[:, :, None] * np.eye(rows.outputs) if f.ndim == 2 else f
    f = np.sqrt(rows.scale * rows.weight / prior)[:, None, None] * f
    k = np.einsum("nab,nbmc,mdc->namd", f, k, f, optimize=True)
    effective, log_det, inverse = of_kernel(k.reshape(count, count))
    temperature, _ = estimate_temperature(jacobian, loss, rows, effective, None, least_free)
    evidence = log_evidence(jacobian, loss, rows, prior, temperature, log_det)
    inverse = (inverse.T @ inverse).reshape(k.shape)
    inverse = np.einsum("nab,namd,mdc->nbmc", f, inverse, f, optimize=True)
    gamma = np.einsum("nj,nj->j", x, np.einsum("nkml,nkml->nm", inverse, slopes) @ x)
    first = jacobian.layers[0][0]
    square = np.einsum("ju,ju->j", first, first)
    gamma = np.where(square > 0, gamma, 0.0)
    others, rest = jacobian.w @ jacobian.w - square.sum(), ridge
    if len(jacobian.layers) > 1:  # else they are biases alone, whose size says nothing
        rest = temperature * (effective - gamma.sum()) / (rows.total * max(others, 1e-300))
    gamma, square = np.bincount(group, gamma), np.bincount(group, square)
    each = temperature * gamma / (rows.total * np.maximum(square, 1e-300))
    each = np.where(gamma > NOTHING * effective, each, np.inf)  # no row says anything of these weights: γ is 0, not w
    return evidence, np.where(square > 0, each, ridge), float(rest)


def _check_enough(rows: int, outputs: int, left_out: int, ridge: float, jacobians: list[NetworkJacobian]) -> None:
    """Refuse rows that say nothing of the noise, or that leave weights undetermined."""
    if left_out < 2:
        raise ValueError("error bars need at least two different rows: one does not say how large the noise is.")
    weights = max(len(jacobian.support) for jacobian in jacobians)
    if ridge == 0 and rows * outputs < weights:
        raise ValueError(
            f"without an l2 penalty {rows:,} rows do not determine {weights:,} weights, and bars would be "
            "infinite: give a penalty (alpha=1e-3), fewer hidden units, or more rows."
        )


@dataclasses.dataclass(frozen=True)
class InUnits:
    """A network by w/unit."""

    jacobian: NetworkJacobian
    unit: np.ndarray  # of every weight

    @property
    def w(self) -> np.ndarray:
        return self.jacobian.w / self.unit

    @property
    def support(self) -> np.ndarray:
        return self.jacobian.support

    def outputs(self, x: Any) -> np.ndarray:
        return self.jacobian.outputs(x)

    def chunks(self, x: Any, outputs: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        unit = self.unit[self.support]
        return ((part, z, j * unit) for part, z, j in self.jacobian.chunks(x, outputs))


def _units(jacobian: NetworkJacobian, inputs: np.ndarray | None) -> np.ndarray:
    """The unit of every weight, where those of the first layer have that of their input."""
    units, (first, bias) = np.ones(len(jacobian.w)), jacobian.layers[0]
    if inputs is not None:
        units[bias.size : bias.size + first.size] = np.repeat(np.where(inputs > 0, inputs, 1), bias.size)
    return units


def _own_weights(post: Posterior) -> tuple[Layers, np.ndarray, np.ndarray]:
    """The MLP's layers at ŵ, the places of the posterior's weights among them, and the unit of each: 1, or where groups
    have strengths of their own, the scale of its group."""
    assert isinstance(post.jacobian, Jacobian)
    layout = post.jacobian.layout
    with jax.enable_x64(True):
        leaves = tuple(map(jnp.asarray, post.jacobian.frozen))
        params = layout.unflatten(jnp.asarray(post.jacobian.w), leaves)
        trained = layout.unflatten(jnp.ones(len(post.jacobian.w)), tuple(map(jnp.zeros_like, leaves)))
    if isinstance(post.jacobian.problem.apply, Scaled):
        units = jax.tree.map(lambda s, w: np.broadcast_to(s, w.shape), params["scale"], params["weights"])
        params, trained = post.jacobian.problem.apply.own(params), trained["weights"]
    else:
        units = jax.tree.map(np.ones_like, params)
    flat = lambda tree: np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(tree)])
    support = np.flatnonzero(flat(trained))[post.jacobian.support]
    layers = [(np.asarray(layer["weight"], float), np.asarray(layer["bias"], float)) for layer in params]
    return layers, support, flat(units)[support]


def _moments(post: Posterior, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [(z, post.gaussian.covariance(j)) for _, z, j in post.jacobian.chunks(x, post.rows.outputs)]
    return np.concatenate([z for z, _ in parts]), np.concatenate([c for _, c in parts])


def _levels(residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The residuals in order, or so many quantiles of them where they are many or have weights of their own."""
    order = np.argsort(residuals)
    if len(residuals) <= MOST_RESIDUALS and np.ptp(weight) == 0:
        return residuals[order]
    count = min(len(residuals), MOST_RESIDUALS)
    share = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    return np.interp((np.arange(count) + 0.5) / count, share, residuals[order])
