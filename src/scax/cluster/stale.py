"""Steps found at weights that have moved on since: how a server takes them in.

A worker copies the state at version v, takes one step of the method on its own mini-batch and sends what changed; by
then the server is at version v + age. With the worker's move α(ŵ − w_v), and θ = 1/(1 + age/patience),

    w ← w + θ · move,      d ← (1−ρ) d + ρ g,      δ_prev ← the worker's δ

What is remembered of the curvature is replaced by the worker's if that has seen more batches.

A worker that solves some of the blocks moves these alone; an iteration is complete when every share of them has moved
once. With age 0 and one share this is the synchronous step, to the bit of w + (w' − w).
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .._struct import Number, struct
from ..options import active_rules
from ..rules.curvature_memory import CurvatureMatrix, CurvatureMemory
from ..rules.rules import RuleStates
from ..sca import SCA, State
from ..sharding.blocks import Partition, scatter

#: Rules that count completed iterations: the server's own.
SCHEDULES = ("step_size", "averaging", "carry")


@struct
class Change:
    """What one worker's step did to its copy of the state."""

    move: Float[Array, "q"]  # w' − w_v: α(ŵ − w_v), or zero where the step was not accepted
    own: Bool[Array, "q"]  # the weights of the worker's blocks
    gradient: Float[Array, "q"] | None  # ρg, None where ρ ≡ 1
    averaging: Float[Array, ""]  # ρ
    carried: Float[Array, "q"] | None  # δ
    rules: RuleStates
    damping: Float[Array, ""]  # τ
    loss: Float[Array, ""]


def share_of(state: State, number: int, shares: int) -> State:
    """The state with one of `shares` equal shares of its blocks; without blocks there is one share."""
    if state.blocks is None:
        return state
    width = -(-state.blocks.index.shape[0] // shares)
    part = slice(number * width, (number + 1) * width)
    return dataclasses.replace(state, blocks=Partition(state.blocks.index[part], state.blocks.mask[part]))


@jax.jit
def change(sca: SCA, state: State, batch) -> Change:
    """One step of the method on a copy of the state."""
    new, info = sca.step(state, batch)
    own = jnp.ones(state.w.shape, bool)
    if state.blocks is not None:
        own = scatter(state.blocks.mask, state.blocks, state.w.shape[0]) > 0
    gradient = None
    if state.memory is not None and new.memory is not None:
        gradient = new.memory - (1 - info.averaging) * state.memory
    return Change(new.w - state.w, own, gradient, info.averaging, new.carried, new.rules, new.damping, info.loss)


@jax.jit
def merge(
    sca: SCA, state: State, new: Change, age: Int[Array, ""], patience: Number, complete: Bool[Array, ""]
) -> State:
    """The server's state after a worker's change; `complete` closes an iteration: its sequences move on."""
    n, active = state.count, active_rules(sca)
    w = state.w + new.move / (1 + age / patience)
    mean = state.mean
    if mean is not None and state.rules.iterate_average is not None:
        mean = jnp.where(complete, mean + (state.w - mean) * state.rules.iterate_average.share, mean)
    memory = state.memory
    if memory is not None and new.gradient is not None:
        memory = jnp.where(new.own, (1 - new.averaging) * memory + new.gradient, memory)
    carried = state.carried
    if carried is not None and new.carried is not None:
        carried = jnp.where(new.own, new.carried, carried)
    if_complete = lambda new, old: jax.tree.map(lambda a, b: jnp.where(complete, a, b), new, old)
    schedules = {
        name: if_complete(rule.advance(own), own)
        for name in SCHEDULES
        if (rule := getattr(active, name)) is not None and (own := getattr(state.rules, name)) is not None
    }
    return dataclasses.replace(
        state,
        w=w,
        mean=mean,
        memory=memory,
        carried=carried,
        rules=dataclasses.replace(new.rules, memory=_fuller(state.rules.memory, new.rules.memory), **schedules),
        damping=new.damping,
        count=n + complete.astype(n.dtype),
    )


def _fuller(own: CurvatureMemory | CurvatureMatrix | None, new: CurvatureMemory | CurvatureMatrix | None):
    """The curvature memory with more updates; None where there is none. Blocks keep no matrix."""
    if not isinstance(own, CurvatureMemory) or not isinstance(new, CurvatureMemory):
        return None
    return jax.tree.map(lambda a, b: jnp.where(new.updates > own.updates, b, a), own, new)
