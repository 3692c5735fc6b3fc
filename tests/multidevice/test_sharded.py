"""A step on sharded rows, and runs spread over devices, give the one-device result."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import scax
from tests.cases import mlp, rows, start


def mesh():
    return Mesh(np.asarray(jax.devices()[:4]), ("data",), axis_types=(AxisType.Auto,))


def setting(regularizer):
    net = mlp(1)
    problem = scax.Problem(net.apply, scax.Squared(), regularizer)
    return scax.SCA(problem, averaging=0.9, damping=0.1), start(net, 0, np.float32), rows(1, 16, dtype=np.float32)


@pytest.mark.parametrize("regularizer", [scax.L2(1e-2), scax.L1(1e-2)], ids=["l2", "l1"])
def test_rows_may_be_sharded(regularizer):
    sca, params, x = setting(regularizer)
    y = np.sin(x[:, 0])
    split = NamedSharding(mesh(), PartitionSpec("data"))
    alone, spread = sca.init(params), sca.init(params)
    for _ in range(2):
        alone, _ = sca.step(alone, (x, y))
        spread, info = sca.step(spread, (jax.device_put(x, split), jax.device_put(y, split)))
        jax.block_until_ready(spread)
    assert info.accepted
    # the gap FISTA reaches in float32 leaves ‖δ − δ*‖ ≤ √(gap · F/μ), about 5e-3
    np.testing.assert_allclose(spread.w, alone.w, rtol=1e-3, atol=1e-5 if regularizer.is_smooth else 5e-3)


def test_seeds_may_be_sharded():
    sca, _, x = setting(scax.L2(1e-2))
    net, y = mlp(1), np.sin(x[:, 0])
    keys = jax.random.split(jax.random.key(0), 8)

    def run(key):
        return sca.step(sca.init(net.init(key)), (x, y))[0].w

    spread = jax.jit(jax.vmap(run))(jax.device_put(keys, NamedSharding(mesh(), PartitionSpec("data"))))
    assert len(spread.sharding.device_set) == 4
    np.testing.assert_allclose(spread, jax.jit(jax.vmap(run))(keys), rtol=1e-4, atol=1e-5)
