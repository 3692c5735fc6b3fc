"""A value that most steps do without: a branch on a CPU, and on a GPU, where branches wait for the host, a choice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scax.rules.base import where_needed


def looked_at(needed, x):
    return where_needed(needed, lambda: {"root": jnp.sqrt(x)}, {"root": jnp.full_like(x, jnp.inf)})


@pytest.mark.parametrize("branch", ["the platform's", "the choice"])
def test_both_give_the_same(branch, monkeypatch):
    if branch == "the choice":  # no GPU is needed to run it
        monkeypatch.setattr(jax.lax, "platform_dependent", lambda *operands, default, **others: default(*operands))
    np.testing.assert_array_equal(looked_at(jnp.asarray(True), jnp.full(2, 4.0))["root"], 2)
    np.testing.assert_array_equal(looked_at(jnp.asarray(False), jnp.full(2, 4.0))["root"], jnp.inf)
