"""Several losses, each on the rows of its own term."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._struct import static, struct
from .base import Loss


@struct
class StackedLoss(Loss):
    """l_t on the rows of term t, outputs of all terms padded with zeros to the same number.

    y has one column more than z: the number of the row's term, so that any rows can be taken out, in any order.
    Every loss sees every row, those of other terms with zeros in place of z and y; `widths` are the terms' outputs.
    """

    losses: tuple[Loss, ...]
    widths: tuple[int, ...] = static(default=())

    @property
    def is_quadratic(self):  # type: ignore[override]
        return all(loss.is_quadratic for loss in self.losses)

    @property
    def caution(self):  # type: ignore[override]
        return max(loss.caution for loss in self.losses)

    def value(self, z, y):
        return sum(jnp.where(own, loss.value(u, v), 0) for own, loss, u, v in self._each(z, y))

    def gradient(self, z, y):
        return self._joined(z, y, lambda loss, u, v: loss.gradient(u, v))

    def factor(self, z, y):
        factors = [(own, loss.factor(u, v)) for own, loss, u, v in self._each(z, y)]
        if all(f.ndim == 2 for _, f in factors):
            return sum(_padded(jnp.where(own[:, None], f, 0), z.shape[1]) for own, f in factors)
        full = [(own, f if f.ndim == 3 else f[:, :, None] * jnp.eye(f.shape[1], dtype=f.dtype)) for own, f in factors]
        return sum(_padded(_padded(jnp.where(own[:, None, None], f, 0), z.shape[1]), z.shape[1], 2) for own, f in full)

    def whitened(self, z, y):
        return self._joined(z, y, lambda loss, u, v: loss.whitened(u, v))

    def remainder(self, z, y):
        remainders = [(own, loss.remainder(u, v)) for own, loss, u, v in self._each(z, y)]
        parts = [_padded(jnp.where(own[:, None], r, 0), z.shape[1]) for own, r in remainders if r is not None]
        return sum(parts[1:], start=parts[0]) if parts else None

    def _each(self, z, y):
        """(which rows are its own, loss, its outputs, its targets) of every term."""
        term = y[:, -1]
        for t, (loss, k) in enumerate(zip(self.losses, self.widths, strict=True)):
            own = term == t
            yield own, loss, jnp.where(own[:, None], z[:, :k], 0), jnp.where(own[:, None], y[:, :k], 0)

    def _joined(self, z, y, part):
        own = [_padded(jnp.where(own[:, None], part(*rest), 0), z.shape[1]) for own, *rest in self._each(z, y)]
        return sum(own[1:], start=own[0])


def _padded(a: Float[Array, "n *k"], k: int, axis: int = 1) -> Array:
    """Zeros beside the last outputs."""
    pad = [(0, 0)] * a.ndim
    pad[axis] = (0, k - a.shape[axis])
    return jnp.pad(a, pad)
