"""Proximal gradient methods for sparse networks, as methods of the engine."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

import scax
from scax._struct import static, struct


@struct
class ProximalState:
    w: Any
    target: Any  # what the last step aimed at: it has the zeros of its prox
    moments: Any
    count: Any

    @property
    def params(self) -> Any:
        return self.w


@struct
class ProximalInfo:
    loss: Any

    @property
    def records(self) -> dict[str, Any]:
        return {"batch_loss": self.loss}


@struct
class Proximal:
    """Minimize loss + ½ ridge ‖w‖² + strength ‖w‖₁ by proximal steps with cosine decay, masked weights held at zero.

    "proximal adam": Adam's step, then the prox of ℓ1 in Adam's own metric diag(√v̂). "proxsgd" (Yang et al., 2020):
    ŵ = argmin m̂ᵀw' + ½(w' − w)ᵀdiag(√v̂)(w' − w) + strength ‖w'‖₁, and a diminishing step towards it; such steps mix
    zeros away, so in the end the weights that are zero in the last ŵ are set to zero.
    """

    problem: scax.Problem  # loss and ridge, of a flat vector of weights
    rate: Any
    strength: Any
    mask: Any
    horizon: int = static()
    kind: str = static()

    def init(self, params: Any) -> ProximalState:
        moments = optax.scale_by_adam().init(params)
        return ProximalState(params * self.mask, params, moments, jnp.zeros((), jnp.int32))

    def step(self, state: ProximalState, batch: Any) -> tuple[ProximalState, ProximalInfo]:
        w, t = state.w, state.count
        value, slope = jax.value_and_grad(lambda w: self.problem.batch_objective((w,), w, batch))(w)
        update, moments = optax.scale_by_adam().update(slope, state.moments)
        metric = jnp.sqrt(moments.nu / (1 - 0.999 ** (t + 1.0))) + 1e-8  # type: ignore[attr-defined]
        length = self.rate * 0.5 * (1 + jnp.cos(jnp.pi * t / self.horizon))
        if self.kind == "proxsgd":
            target = _soft(w - update, self.strength / metric)
            w = w + length * (target - w)
        else:
            target = w = _soft(w - length * update, length * self.strength / metric)
        return ProximalState(w * self.mask, target, moments, t + 1), ProximalInfo(value)

    def solution(self, state: ProximalState) -> Any:
        return jnp.where(state.target == 0, 0, state.w)


def _soft(w, t):
    return jnp.sign(w) * jnp.maximum(jnp.abs(w) - t, 0)
