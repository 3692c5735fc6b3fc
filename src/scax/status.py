"""How a step ended: one code, one message, one remedy per way of failing."""

import enum


class Status(enum.IntEnum):
    OK = 0
    NOT_CONVERGED = 1
    NOT_FINITE = 2
    INACCURATE = 3
    OBJECTIVE_ROSE = 4
    RESTORED = 5

    @property
    def message(self) -> str:
        return _MESSAGES[self]


_MESSAGES = {
    Status.OK: "solved.",
    Status.NOT_CONVERGED: (
        "the solver stopped at its iteration limit above its tolerance; the step was taken. Raise `damping`, "
        "or the solver's max_iterations or tolerance, e.g. solver=scax.solvers.Semismooth(max_iterations=300)."
    ),
    Status.NOT_FINITE: (
        "the solution is not finite; the step was not taken. Likely causes: NaN or inf in the batch, weights that have "
        "already exploded, or no curvature (damping 0 without L2). Check the data, raise `damping`."
    ),
    Status.INACCURATE: (
        "the solution does not satisfy its own equations; the step was not taken. In float32 this happens when "
        "`damping` is very small: raise it, or compute in float64 (jax.config.update('jax_enable_x64', True))."
    ),
    Status.OBJECTIVE_ROSE: (
        "the new weights raise the objective of this very batch far above its recent level; the step was not taken and "
        "damping rises where it looks after itself. With a fixed `damping`, raise it or lower `step_size`."
    ),
    Status.RESTORED: (
        "the weights had gone astray: on a batch they had not seen their objective was far above its recent level, and "
        "above that of the averaged iterate, from which the run goes on. If it happens often, raise `damping` or lower "
        "`step_size`."
    ),
}
