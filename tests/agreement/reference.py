"""ŵ from first principles: an explicit Jacobian, NumPy, a long proximal-gradient run, and a certificate.

Nothing of scax is used but the network: losses and penalties are written out again, the plain way.
"""

import dataclasses

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from tests.cases import Parts


@dataclasses.dataclass(frozen=True)
class Reference:
    """The convex problem of one iteration, F(δ) = ρ Σ share_i l(z_i + J_i δ) + cᵀδ + μ‖δ‖² + nonsmooth(w + δ)."""

    apply: object
    loss: object
    regularizer: object
    params: object
    x: np.ndarray
    y: np.ndarray
    memory: np.ndarray
    carried: np.ndarray  # δ_prev
    rho: float
    beta: float
    tau: float
    shares: np.ndarray | None = None

    def __post_init__(self):
        set_ = lambda name, value: object.__setattr__(self, name, value)
        w, unravel = ravel_pytree(self.params)

        def network(w):
            z = self.apply(unravel(w), self.x)
            return z[:, None] if z.ndim == 1 else z

        z0 = np.asarray(network(w))
        y = self.y
        if y.ndim == 1:
            y = np.eye(z0.shape[1])[y] if y.dtype.kind == "i" else y[:, None]
        shares = np.full(len(y), 1 / len(y)) if self.shares is None else self.shares
        parts = Parts.of(self.regularizer, np.asarray(w))
        set_("w", np.asarray(w))
        set_("z0", z0)
        set_("jacobian", np.asarray(jax.jacrev(network)(w)).reshape(z0.size, -1))
        set_("parts", parts)
        set_("mu", self.tau + parts.ridge / 2)
        set_("linear", parts.ridge * self.w + (1 - self.rho) * self.memory - 2 * self.tau * self.beta * self.carried)
        set_("scale", self.rho * shares)
        set_("targets", y)
        set_("formulas", LOSSES[type(self.loss).__name__])

    def outputs(self, delta):
        return self.z0 + (self.jacobian @ delta).reshape(self.z0.shape)

    def value(self, delta):
        """F(δ)."""
        return self._smooth(delta) + self.parts.nonsmooth(self.w + delta)

    def slope(self, delta):
        """The gradient of everything but `nonsmooth`."""
        g = self.formulas[1](self.loss, self.outputs(delta), self.targets)
        return self.jacobian.T @ (self.scale[:, None] * g).ravel() + self.linear + 2 * self.mu * delta

    def residual(self, delta):
        """dist(0, ∂F(δ)); F is 2μ-strongly convex, so ‖δ − δ*‖ ≤ residual/2μ."""
        return self.parts.violation(self.w + delta, self.slope(delta))

    def solve(self, iterations=20000):
        """Accelerated proximal gradient for a strongly convex F; certified to 1e-11 relative to ‖δ‖."""
        rows = self.jacobian * np.sqrt(np.repeat(self.scale, self.z0.shape[1]))[:, None]
        delta = np.zeros_like(self.w)
        ahead = delta
        bound = 2 * self.mu + self.formulas[2] * np.linalg.norm(rows, 2) ** 2
        for n in range(iterations):
            slope = self.slope(ahead)
            new = self.parts.prox(self.w + ahead - slope / bound, 1 / bound) - self.w
            move = new - ahead
            if self._smooth(new) > self._smooth(ahead) + slope @ move + bound / 2 * move @ move + 1e-13:
                bound *= 2
                continue
            root = np.sqrt(2 * self.mu / bound)
            ahead = new + (1 - root) / (1 + root) * (new - delta)
            delta = new
            if n % 10 == 9 and self.residual(delta) <= 1e-11 * 2 * self.mu * (np.linalg.norm(delta) + 1e-3):
                return delta
        raise AssertionError(f"the reference did not converge: residual {self.residual(delta):.2e}")

    def _smooth(self, delta):
        loss = self.scale @ self.formulas[0](self.loss, self.outputs(delta), self.targets).sum(1)
        return loss + self.linear @ delta + self.mu * delta @ delta


#: value and gradient per output, and a curvature to start the step from (it is raised where it is too small)
LOSSES = {
    "Squared": (lambda loss, z, y: (z - y) ** 2, lambda loss, z, y: 2 * (z - y), 2.0),
    "Logistic": (lambda loss, z, y: np.logaddexp(0, z) - y * z, lambda loss, z, y: 1 / (1 + np.exp(-z)) - y, 0.25),
    "Softmax": (
        lambda loss, z, y: np.log(np.exp(z).sum(1, keepdims=True)) * y - y * z,  # Σ_k y_k = 1
        lambda loss, z, y: np.exp(z) / np.exp(z).sum(1, keepdims=True) - y,
        0.5,
    ),
    "Huber": (
        lambda loss, z, y: np.where(
            np.abs(z - y) <= loss.delta, (z - y) ** 2 / 2, loss.delta * (np.abs(z - y) - loss.delta / 2)
        ),
        lambda loss, z, y: np.clip(z - y, -loss.delta, loss.delta),
        1.0,
    ),
    "Poisson": (lambda loss, z, y: np.exp(z) - y * z, lambda loss, z, y: np.exp(z) - y, 3.0),
}
