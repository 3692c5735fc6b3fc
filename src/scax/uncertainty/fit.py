"""The posterior of a trained network: A accumulated over rows, or its smaller side.

A = Σ_i c_i J_iᵀ H_i J_i + N·ridge·I        H_i = FᵀF the loss's Hessian, c_i the row's weight, N = Σ c_i
w ~ N(ŵ, T A⁻¹)                            T the loss's temperature: 2σ² for Squared, 1 for a log-likelihood
γ = tr(A⁻¹ Σ c_i J_iᵀH_iJ_i)                effective weights
T = Σ c_i ‖∂l_i‖² / ((NK − γ) · mean tr H_i/K)   which is 2 Σe²/(NK − γ) for Squared
"""

import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree
from scipy.linalg import get_blas_funcs, get_lapack_funcs, qr

from .. import checks
from .._gaussian import Gaussian
from ..losses import Huber, Loss, Squared
from ..problem import Problem
from ..training.finish import stationarity
from .jacobian import Jacobian, NetworkLike, of_loss
from .posterior import Posterior, Rows

(dsyrk,) = get_blas_funcs(("syrk",), dtype=np.float64)
dpotrf, dtrtri = get_lapack_funcs(("potrf", "trtri"), dtype=np.float64)
#: The side of a system up to which it is exact: 12,000² numbers are 1.2 GB.
LARGEST_SIDE = 12_000
#: The side up to which it is so at once. Beyond, it is tried first whether an eighth as many directions are all that
#: the rows tell: bars are then right within this share.
SMALL_SIDE, TRIED, CLOSE = 2500, 8, 1e-5
#: Directions of a low-rank form that is asked for, or for want of another.
RANK = 1000
#: Rows of which new directions are made at once, and the share of the longest that one must have.
BLOCK, SHARE = 128, 0.2
#: Numbers of S up to which it is kept (0.9 GB).
MOST_KEPT = 110_000_000
#: Stationarity above which the weights are said not to be at a minimum.
UNTRAINED = 0.5
FORMS = ("auto", "weight-space", "sample-space", "last-layer", "low-rank")


def posterior(
    problem: Problem,
    params: PyTree,
    data: Any,
    *,
    form: str = "auto",
    ridge: float | None = None,
    noise: float | None = None,
) -> Posterior:
    """Error bars of a trained network: the Gaussian posterior of the network linearized at `params`.

    Parameters
    ----------
    problem : what was minimized. Its ridge is the prior; zeros of a sparse penalty stay zero.
    params : the trained weights, at a minimum of the objective (a warning names the stationarity where they are not).
    data : (x, y) or (x, y, weight), the training rows; a weight of 2 counts a row twice.
    form : "auto", "weight-space" (Q×Q), "sample-space" (NK×NK), "last-layer" or "low-rank" (approximations for
        networks and tables that are both large). `Posterior.explain` says which was taken and why.
    ridge : the prior's λ where it is not the problem's own.
    noise : the noise's standard deviation σ (Squared, Huber) where it is known.

    Returns
    -------
    A `Posterior`: `predict`, `predict_interval`, `predict_proba`, `sample`, `noise`, `effective_weights`, `evidence`,
    `leverage`, `leave_one_out`.

    >>> import jax, numpy as np, scax
    >>> net = scax.MLP((1, 8, 1))
    >>> x = np.linspace(-1, 1, 40)[:, None]; y = np.sin(3 * x[:, 0])
    >>> problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    >>> result = scax.train(scax.SCA(problem), net.init(jax.random.key(0)), (x, y), steps=100, batch_size=None)
    >>> mean, std = scax.posterior(problem, result.params, (x, y)).predict(x)  # [40, 1] each
    """
    checks.choice("form", form, FORMS)
    if problem.names:
        raise ValueError(
            f"the posterior is of one function and its targets, got the terms {', '.join(problem.names)}: give "
            "scax.Problem(apply, loss, regularizer) of the term that has noisy targets."
        )
    if problem.manifold is not None:
        raise ValueError("the posterior knows no manifold penalty: give the problem without manifold=.")
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64) if _is_float(leaf) else leaf, params)
        batch = problem.ready(params, data)
        gap = stationarity(problem, params, (batch.x, batch.y, batch.weight)).on
        penalty = float(problem.regularizer.value(problem.layout(params).flatten(params)))
        outputs = jax.eval_shape(problem.outputs, params, batch.x).shape[1]
        flat = len(jax.eval_shape(problem.apply, params, batch.x).shape) == 1
        y = np.asarray(problem.loss.targets(batch.y, outputs), np.float64)
    own = checks.concrete(problem.regularizer.ridge) if ridge is None else np.asarray(float(ridge))
    assert own is not None
    checks.nonnegative("ridge", own)
    x, n = np.asarray(batch.x), batch.size
    weight = np.ones(n) if batch.weight is None else np.asarray(batch.weight, np.float64)
    jacobian = Jacobian.of(problem, params)
    if form == "last-layer":
        last = len(jacobian.w) - sum(_last_layer(jacobian.layout))
        jacobian = Jacobian.of(problem, params, jacobian.support[jacobian.support >= last])
    rows = Rows(x, y, weight, outputs)
    if gap > UNTRAINED and penalty > 0:  # without a penalty nothing but the loss's own gradient is left, at any point
        warnings.warn(
            f"the weights are not at a minimum: what is left of the gradient is {gap:.2g} of the loss's own "
            "(scax.stationarity). Error bars assume a minimum: train on, or with batch_size=None.",
            stacklevel=2,
        )
    return fit(jacobian, problem.loss, rows, float(own), form, noise, gap, flat)


def fit(
    jacobian: NetworkLike,
    loss: Loss,
    rows: Rows,
    ridge: float,
    form: str,
    noise: float | None = None,
    gap: float = 0.0,
    flat: bool = False,
    temperature: float | None = None,
    least_free: float = 0.0,
) -> Posterior:
    """The posterior of a network given by its f and J; `temperature` where T is known, or found later.

    `least_free`: the share of the rows that N − γ is taken to be at least; 0 refuses where nothing is left."""
    prior = rows.total * ridge
    (gaussian, effective, log_det), why = _solve(form, jacobian, loss, rows, prior)
    sigma = None
    if temperature is None:
        temperature, sigma = estimate_temperature(jacobian, loss, rows, effective, noise, least_free)
    return Posterior(
        jacobian, loss, rows, gaussian, effective, temperature, sigma, prior, log_det, gap, why, flat
    )  # fmt: skip


def _is_float(leaf: Any) -> bool:
    return np.issubdtype(getattr(leaf, "dtype", np.asarray(leaf).dtype), np.floating)


def _last_layer(layout: Any) -> tuple[int, ...]:
    """Sizes of the leaves of the last layer: a matrix and what follows it, or a bias that comes before it by name."""
    matrices = [i for i, shape in enumerate(layout.trained_shapes) if len(shape) >= 2]
    if not matrices:
        return layout.sizes[-1:]
    last = matrices[-1]
    # a dictionary's leaves are in the order of their names: "bias" comes before its "weight"
    before = last > 0 and layout.trained_shapes[last - 1] == layout.trained_shapes[last][-1:]
    return layout.sizes[last - 1 if before else last :]


def weighted_rows(loss: Loss, rows: Rows, part: slice, z: np.ndarray, j: np.ndarray) -> np.ndarray:
    """S_i = √c_i F_i J_i, [n·k, q]."""
    factor = of_loss(loss, "factor", z, rows.y[part])
    root = np.sqrt(rows.scale * rows.weight[part])[:, None, None]
    scaled = factor[:, :, None] * j if factor.ndim == 2 else factor @ j
    return (root * scaled).reshape(-1, j.shape[2])


def _weight_space(jacobian: NetworkLike, loss: Loss, rows: Rows, prior: float) -> tuple[Gaussian, float, float]:
    q = len(jacobian.support)
    a = np.zeros((q, q), order="F")
    for _, s in _weighted(jacobian, loss, rows):
        a = dsyrk(1.0, s.T, beta=1.0, c=a, lower=1, overwrite_c=1)  # A += SᵀS, lower half
    a[np.diag_indices(q)] += prior
    largest = a.diagonal().max()
    a, failed = dpotrf(a, lower=1, clean=1, overwrite_a=1)
    smallest = a.diagonal().min() if not failed else 0.0
    if failed or smallest**2 <= q * np.finfo(float).eps * largest:
        raise ValueError(
            f"A = JᵀHJ + N·ridge·I is singular for {q:,} weights and {rows.count:,} rows (N·ridge = {prior:.2g}): some "
            "weights are not determined. Give the problem a ridge, scax.L2(1e-4), or posterior(..., ridge=1e-4)."
        )
    log_det = 2 * float(np.log(a.diagonal()).sum())
    r, _ = dtrtri(a, lower=1, overwrite_c=1)
    effective = q - prior * sum(float(np.vdot(r[:, i], r[:, i])) for i in range(q))  # γ = Q − d tr A⁻¹
    return Gaussian("weights", r), effective, log_det


def _sample_space(jacobian: NetworkLike, loss: Loss, rows: Rows, prior: float) -> tuple[Gaussian, float, float]:
    check_prior(prior)
    return _from_rows(_kept(jacobian, loss, rows), prior)


def _directions(
    jacobian: NetworkLike, loss: Loss, rows: Rows, prior: float, most: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """(Vᵀ, S V, ε): S ≈ S V Vᵀ, V an orthonormal basis of the rows that are farthest from it, a block at a time.

    With ‖S − S V Vᵀ‖² = ε²d every standard deviation is right within 1 ± ε; directions left out keep the prior's width.
    Ends at ε = `CLOSE`, or what rounding leaves of it, or at `most` directions.
    """
    check_prior(prior)
    q, k = len(jacobian.support), rows.outputs
    if rows.count * k * q <= MOST_KEPT:
        whole = _kept(jacobian, loss, rows)
        parts = lambda: [(slice(0, rows.count), whole)]
        some = lambda places: whole.reshape(-1, k, q)[places].reshape(-1, q)
    else:
        parts = lambda: _weighted(jacobian, loss, rows)
        some = lambda places: _kept(jacobian, loss, rows.take(places))
    left = np.concatenate([np.einsum("ij,ij->i", s, s) for _, s in parts()])
    goal, rounding = CLOSE**2 * prior, 4 * np.finfo(float).eps * left.sum()
    basis, along = np.empty((0, q)), np.empty((rows.count * k, 0))
    while left.sum() > goal + rounding and len(basis) < most:
        farthest = np.argsort(left.reshape(-1, k).sum(1))[::-1][: max(1, BLOCK // k)]
        fresh = some(farthest)
        for _ in range(2):
            fresh = fresh - (fresh @ basis.T) @ basis
        found: Any = qr(fresh.T, mode="economic", pivoting=True, check_finite=False)
        direction, size = found[0], np.abs(np.diagonal(found[1]))
        direction = direction[:, : len(size)][:, size > SHARE * size[0]][:, : most - len(basis)]
        product = np.concatenate([s @ direction for _, s in parts()])
        basis, along = np.concatenate([basis, direction.T]), np.concatenate([along, product], axis=1)
        left = np.maximum(left - np.einsum("ij,ij->i", product, product), 0)
        fresh = fresh - (fresh @ direction) @ direction.T
        left.reshape(-1, k)[farthest] = np.einsum("ij,ij->i", fresh, fresh).reshape(-1, k)  # free of rounding
    return basis, along, float(np.sqrt(max(left.sum() - rounding, 0) / prior))


def _weighted(jacobian: NetworkLike, loss: Loss, rows: Rows) -> Iterator[tuple[slice, np.ndarray]]:
    """S a chunk at a time."""
    for part, z, j in jacobian.chunks(rows.x, rows.outputs):
        yield part, weighted_rows(loss, rows, part, z, j)


def _kept(jacobian: NetworkLike, loss: Loss, rows: Rows) -> np.ndarray:
    """S [n·k, q]."""
    whole = np.empty((rows.count, rows.outputs, len(jacobian.support)))
    for part, s in _weighted(jacobian, loss, rows):
        whole[part] = s.reshape(-1, *whole.shape[1:])
    return whole.reshape(-1, whole.shape[2])


def _from_rows(s: np.ndarray, prior: float) -> tuple[Gaussian, float, float]:
    """B = S'S'ᵀ + I = LLᵀ, S' = S/√d;   γ = m − tr B⁻¹;   log det A = log det B + Q log d."""
    q = s.shape[1]
    s = s / np.sqrt(prior)
    effective, log_det, inverse = of_kernel(s @ s.T)
    log_det += q * float(np.log(prior))
    return Gaussian("rows", inverse @ s, np.full(q, 1 / np.sqrt(prior))), effective, log_det


def of_kernel(b: np.ndarray) -> tuple[float, float, np.ndarray]:
    """(γ, log det B, L⁻¹) of B = `b` + I = LLᵀ; `b` is overwritten."""
    m = len(b)
    b[np.diag_indices(m)] += 1
    lower = np.linalg.cholesky(b)
    inverse, _ = dtrtri(lower, lower=1)
    return m - float(np.vdot(inverse, inverse)), 2 * float(np.log(lower.diagonal()).sum()), inverse


def check_prior(prior: float) -> None:
    if prior <= 0:
        raise ValueError(
            "with ridge 0 and fewer equations than weights, weights are not determined and bars would be infinite: "
            "give the problem a ridge, scax.L2(1e-4), or posterior(..., ridge=1e-4)."
        )


def _solve(
    form: str, jacobian: NetworkLike, loss: Loss, rows: Rows, prior: float
) -> tuple[tuple[Gaussian, float, float], str]:
    """(Gaussian, γ, log det A), and in words which form that is and why."""
    equations, weights = rows.count * rows.outputs, len(jacobian.support)
    sizes, why = f"{equations:,} equations, {weights:,} weights", "asked for"
    if weights == 0:
        return (Gaussian("weights", np.empty((0, 0))), 0.0, 0.0), "every weight is exactly zero: the noise alone"
    side = min(equations, weights)
    if form == "low-rank" or (form == "auto" and side > SMALL_SIDE and prior > 0):
        is_choice = form == "auto" and side <= LARGEST_SIDE
        basis, along, epsilon = _directions(jacobian, loss, rows, prior, side // TRIED if is_choice else RANK)
        if epsilon <= CLOSE or not is_choice:
            close = f"bars within {max(epsilon, CLOSE):.0e} of all directions'" if epsilon < 1 else "an approximation"
            why = f"low-rank: {len(basis):,} directions of {sizes}, {close}"
            return _from_rows(np.linalg.qr(along, mode="r") @ basis, prior), why
        del basis, along
    if form == "auto":
        form, why = "weight-space" if weights <= equations else "sample-space", f"exact, a system of side {side:,}"
    exact = _sample_space if form == "sample-space" else _weight_space
    return exact(jacobian, loss, rows, prior), f"{form}: {why}; {sizes}"


def estimate_temperature(
    jacobian: NetworkLike, loss: Loss, rows: Rows, effective: float, noise: float | None, least: float
) -> tuple[float, np.ndarray | None]:
    """(T, σ per output); σ is None for a loss that is a log-likelihood with no scale of its own."""
    if not isinstance(loss, (Squared, Huber)):
        if noise is not None:
            raise ValueError(f"noise={noise} is for Squared and Huber: {type(loss).__name__} has none of its own.")
        return 1.0, None
    bend = 2.0 if isinstance(loss, Squared) else 1.0  # ∂²l inside
    if noise is not None:
        checks.positive("noise", noise)
        return bend * float(noise) ** 2, np.full(rows.outputs, float(noise))
    count = rows.total * rows.outputs
    free = max(count - effective, least * count)
    if free < 1:
        raise ValueError(
            f"{rows.count:,} rows leave {max(free, 0):.2g} degrees of freedom beside {effective:.1f} effective "
            "weights: the noise cannot be estimated. Raise the ridge, take more rows, or give noise=."
        )
    z = jacobian.outputs(rows.x)
    slope, curvature = of_loss(loss, "gradient", z, rows.y), of_loss(loss, "factor", z, rows.y) ** 2
    inside = np.average(curvature, axis=0, weights=rows.weight)
    share = free / rows.outputs
    each = rows.scale * rows.weight @ slope**2 / (share * np.maximum(inside, np.finfo(float).tiny))
    return float(each.mean()), np.sqrt(each / bend)
