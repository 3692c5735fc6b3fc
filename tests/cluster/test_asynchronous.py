"""Workers that do not wait: stale changes taken in, deaths survived."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.cluster.stale import change, merge, share_of
from tests.cases import mlp, rows, start


def setting(**options):
    net = mlp(1)
    x = rows(1, 64, dtype=np.float32)
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    return scax.SCA(problem, **options), start(net, 0, np.float32), (x, np.sin(x[:, 0]))


def taken(sca, state, new, age=0, complete=True):
    return merge(sca, state, new, jnp.asarray(age), 4.0, jnp.asarray(complete))


def test_a_fresh_change_is_the_synchronous_step():
    sca, params, batch = setting(averaging=0.7)
    state = sca.init(params)
    for _ in range(3):
        wanted, _ = sca.step(state, batch)
        state = taken(sca, state, change(sca, state, batch))
        for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_age_shortens_the_step():
    sca, params, batch = setting()
    state = sca.init(params)
    new = change(sca, state, batch)
    fresh, old = (taken(sca, state, new, age).w - state.w for age in (0, 4))
    np.testing.assert_allclose(old, fresh / 2, rtol=1e-4, atol=1e-7)


def test_what_is_remembered_is_not_forgotten_by_a_worker_that_knows_less():
    """Two workers start from one copy; the first looks at two batches, the second at one."""
    sca, params, batch = setting()
    begin = sca.init(params)
    first = merge(sca, begin, change(sca, begin, batch), jnp.asarray(0), 4.0, jnp.asarray(True))
    second = merge(sca, first, change(sca, first, batch), jnp.asarray(0), 4.0, jnp.asarray(True))
    assert second.rules.memory.updates == 2
    late = merge(sca, second, change(sca, begin, batch), jnp.asarray(2), 4.0, jnp.asarray(True))
    assert late.rules.memory.updates == 2
    np.testing.assert_array_equal(late.rules.memory.rows, second.rules.memory.rows)


def test_shares_of_the_blocks_add_up_to_the_iteration():
    """Every worker's share from the same copy: together they are one synchronous step on the blocks."""
    sca, params, batch = setting(blocks=scax.Blocks(3), averaging=0.7, acceptance=False, damping=0.1)
    state = server = sca.init(params)
    wanted, _ = sca.step(state, batch)
    for share in range(2):
        copy = share_of(state, share, 2)
        server = taken(sca, server, change(sca, copy, batch), complete=share == 1)
        assert (server.count == 1) == (share == 1)
    for name in ("w", "memory", "carried", "damping"):
        np.testing.assert_allclose(getattr(server, name), getattr(wanted, name), rtol=1e-5, atol=1e-6)
    for a, b in zip(jax.tree.leaves(sca.solution(server)), jax.tree.leaves(sca.solution(wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def local_ray():
    ray = pytest.importorskip("ray", reason="needs the extra: pip install 'scax[ray]'")
    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.timeout(700)
def test_workers_and_server_may_die(local_ray, tmp_path):
    """A worker and the server are killed on the way: the run reaches its end, and has learned."""
    sca, params, data = setting()
    killed = []

    def kill(crew):
        if not killed and crew.done >= 6:
            killed.append("worker")
            local_ray.kill(crew.workers[0])
        elif len(killed) == 1 and crew.done >= 25:
            killed.append("server")
            local_ray.kill(crew.server)

    before = float(sca.problem.objective(params, *data))
    result = scax.train_async(
        sca,
        params,
        data,
        steps=60,
        workers=2,
        batch_size=8,
        checkpoint=tmp_path / "server",
        every=5,
        callback=kill,
        limit=600,
    )
    assert killed == ["worker", "server"]
    assert result.history["deaths"][0] == 2
    assert result.history["step"][0] >= 60
    assert result.history["objective"][0] < before / 2
    # a later call goes on from the checkpoint: nothing is left to do
    again = scax.train_async(sca, params, data, steps=60, workers=2, batch_size=8, checkpoint=tmp_path / "server")
    np.testing.assert_array_equal(again.state.count, result.state.count)


def test_refusals():
    pytest.importorskip("ray", reason="needs the extra: pip install 'scax[ray]'")
    sca, params, data = setting()
    with pytest.raises(ValueError, match="leave parallel= and manifold= out"):
        scax.train_async(dataclasses.replace(sca, parallel=scax.Parallel(1)), params, data, steps=1)
    with pytest.raises(ValueError, match=r"use Blocks\(count, by=...\) alone"):
        scax.train_async(dataclasses.replace(sca, blocks=scax.Blocks(2, active=1)), params, data, steps=1)
    with pytest.raises(ValueError, match="staleness must be a whole number ≥ 0, got -1"):
        scax.train_async(sca, params, data, steps=1, staleness=-1)
