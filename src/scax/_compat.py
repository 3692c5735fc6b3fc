"""Calls into JAX whose form has changed between releases, in one place."""


def bind(eqn, values: list) -> list:
    """Evaluate one equation of a jaxpr; the way sub-functions are handed over depends on the release."""
    bound = eqn.primitive.get_bind_params(eqn.params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    out = eqn.primitive.bind(*functions, *values, **params)
    return list(out) if eqn.primitive.multiple_results else [out]
