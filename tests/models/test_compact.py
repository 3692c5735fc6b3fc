"""What is in use of a network with exact zeros, found in two ways."""

import numpy as np
import pytest

from scax import MLP, compact
from scax.models.compact import used, weights_used


@pytest.mark.parametrize("seed", range(20))
def test_used_is_what_compact_leaves(seed):
    rng = np.random.default_rng(seed)
    widths = (5, 6, 4, 2)
    share = rng.uniform(0.05, 0.6)
    kernels = [rng.normal(size=shape) * (rng.uniform(size=shape) < share) for shape in zip(widths, widths[1:])]  # noqa: B905, RUF007
    params = [{"weight": kernel, "bias": rng.normal(size=kernel.shape[1])} for kernel in kernels]
    small, units = compact(MLP(widths, "tanh"), params), used(kernels)
    assert small.net.widths[:-1] == tuple(max(1, int(layer.sum())) for layer in units[:-1])
    assert sum(np.count_nonzero(layer["weight"]) for layer in small.params) == weights_used(kernels)
    if units[0].any():
        np.testing.assert_array_equal(np.flatnonzero(units[0]), small.inputs)
