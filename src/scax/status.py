"""How a step ended: one code, one message, one remedy for each way of failing.

The first are a solver's outcomes, then what becomes of its step, then the ends of a run on all rows.
"""

import enum


class Status(enum.IntEnum):
    """How a step or a run ended: a code with a `message` and a `remedy`.

    >>> scax.Status(4).name
    'OBJECTIVE_ROSE'
    >>> scax.Status.OK.message
    'solved.'
    """

    OK = 0
    NOT_CONVERGED = 1
    NOT_FINITE = 2
    STALLED = 6
    SINGULAR = 7

    INACCURATE = 3
    OBJECTIVE_ROSE = 4
    RESTORED = 5

    CONVERGED = 8
    PRECISION_REACHED = 9

    @property
    def is_end(self) -> bool:
        """Whether there is nothing left to do."""
        return self in (Status.CONVERGED, Status.PRECISION_REACHED)

    @property
    def message(self) -> str:
        """What happened, why it may have, and what became of the step."""
        return _MESSAGES[self][0]

    @property
    def remedy(self) -> str:
        """What to change; nothing for a step that is all right."""
        return _MESSAGES[self][1]


_MESSAGES = {
    Status.OK: ("solved.", ""),
    Status.NOT_CONVERGED: (
        "the solver stopped at its iteration limit above its tolerance; the step was taken.",
        "Raise `damping`, or the solver's max_iterations or tolerance, e.g. "
        "solver=scax.solvers.Semismooth(max_iterations=300).",
    ),
    Status.STALLED: (
        "the solver made no more progress above its tolerance: rounding hides what is left to gain; the step was "
        "taken.",
        "Raise `damping` or the solver's tolerance, or compute in float64 (jax.config.update('jax_enable_x64', True)).",
    ),
    Status.SINGULAR: (
        "the linear system of the step is singular or not positive definite in this precision; the step was not taken. "
        "Likely causes: a very small `damping` in float32, or weights and inputs of very different scales.",
        "Raise `damping`, add L2, standardize the inputs, or compute in float64 "
        "(jax.config.update('jax_enable_x64', True)).",
    ),
    Status.NOT_FINITE: (
        "the solution is not finite; the step was not taken. Likely causes: NaN or inf in the batch, weights that have "
        "already exploded, or no curvature (damping 0 without L2).",
        "Check the data, raise `damping`.",
    ),
    Status.INACCURATE: (
        "the solution does not satisfy its own equations; the step was not taken. In float32 this happens when "
        "`damping` is very small.",
        "Raise `damping`, or compute in float64 (jax.config.update('jax_enable_x64', True)).",
    ),
    Status.OBJECTIVE_ROSE: (
        "the new weights raise the objective of this very batch far above its recent level; the step was not taken, "
        "and damping rises unless it is fixed.",
        "With a fixed `damping`, raise it or lower `step_size`.",
    ),
    Status.RESTORED: (
        "the weights were far off: on a batch that they had not been fitted to, their objective was far above its "
        "recent level and above that of the averaged iterate, from which the run goes on.",
        "If it happens often, raise `damping` or lower `step_size`.",
    ),
    Status.CONVERGED: (
        "converged: on all rows, the best step would gain less than rounding shows; the gradient is zero for what this "
        "precision can tell.",
        "",
    ),
    Status.PRECISION_REACHED: (
        "at the precision's floor: on all rows, steps no longer lower the objective by what rounding shows.",
        "For a lower one, compute in float64 (jax.config.update('jax_enable_x64', True)).",
    ),
}
