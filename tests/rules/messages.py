"""What a step tells the rules, made by hand."""

import jax.numpy as jnp

from scax.rules import Outcome, Reading, Seen


def number(value):
    return jnp.asarray(value, jnp.float32)


def seen(n=0, objective=1.0, spread=-1.0, rows=20.0, caution=1.0, left=1.0, along=(0.0, 0.0), clock=None):
    """A batch. The curvature itself is nobody's business."""
    step = jnp.asarray(n, jnp.int32)
    return Seen(
        step=step,
        rows=number(rows),
        objective=number(objective),
        caution=caution,
        curvature=lambda: number(-1.0),
        spread=lambda: number(spread),
        weighted_rows=lambda few: jnp.zeros((few, 3)),
        along=lambda: (number(along[0]), number(along[1])),
        curvature_left=lambda: left,
        clock=Reading.of_step(step, jnp.float32) if clock is None else Reading(*map(number, clock)),
    )


def outcome(accepted, before=1.0, after=1.0, predicted=1.0):
    """How a step did."""
    one = number(1.0)
    return Outcome(
        jnp.asarray(0), jnp.asarray(accepted), one, number(before), lambda: number(after), lambda: number(predicted)
    )
