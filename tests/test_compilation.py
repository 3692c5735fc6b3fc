"""How often the network is traced: once per problem and batch shape, never for other numbers."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scax
from tests.cases import rows


class Counted:
    """A network that counts how often it is traced for differentiation or evaluation; `eval_shape` is not counted."""

    def __init__(self):
        self.net = scax.MLP((3, 3, 1))
        self.shapes = []

    def apply(self, params, x):
        self.shapes.append(x.shape)
        return self.net.apply(params, x)


@pytest.fixture
def compiled(monkeypatch):
    """The number of XLA compilations so far."""
    count = [0]
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: count.__setitem__(0, count[0] + name.endswith("backend_compile_duration"))
    )
    yield lambda: count[0]
    jax.monitoring.clear_event_listeners()


def data(n):
    return rows(1, n, dtype=np.float32), rows(2, n, 1, dtype=np.float32)


def test_one_compilation_per_problem_and_shape(compiled):
    network = Counted()
    problem = scax.Problem(network.apply, scax.Huber(1.0), scax.L2(1e-3))
    params = network.net.init(jax.random.key(0))
    other = network.net.init(jax.random.key(1))

    def step(sca, params, batch):
        state, _ = sca.step(sca.init(params), batch)
        return sca.step(state, batch)[0]

    options = {"averaging": scax.PowerDecay(0.9, 0.1), "damping": 0.1, "carry": 0.5, "acceptance": scax.Acceptance()}
    step(scax.SCA(problem, step_size=scax.PowerDecay(0.3, 0.5), **options), params, data(6))
    before = compiled()
    first = len(network.shapes)
    # another seed, other data, another strength, another loss width, other sequences, damping, carry, acceptance
    step(scax.SCA(problem, step_size=scax.PowerDecay(0.3, 0.5), **options), other, data(6))
    changed = dataclasses.replace(problem, regularizer=scax.L2(0.5), loss=scax.Huber(0.3))
    sweep = {"averaging": scax.PowerDecay(0.8, 0.2), "damping": 0.7, "acceptance": scax.Acceptance(rise=3.0)}
    step(scax.SCA(changed, step_size=scax.PowerDecay(0.1, 0.9), carry=0.3, mean_power=2.0, **sweep), other, data(6))
    assert compiled() == before
    shapes_again = len(network.shapes) - first
    step(scax.SCA(problem, step_size=scax.PowerDecay(0.3, 0.5), **options), params, data(7))
    assert compiled() > before  # another batch shape does compile
    assert shapes_again <= 6  # the shape check alone, once per step


def test_train_compiles_once_for_any_number_of_steps(compiled):
    """`steps`, the last, shorter chunk, the key and the strengths are data."""
    network = Counted()
    params = network.net.init(jax.random.key(0))

    def run(steps, strength, seed, records):
        sca = scax.SCA(scax.Problem(network.apply, scax.Squared(), scax.L2(strength)))
        key = jax.random.key(seed)
        scax.train(sca, params, data(12), steps=steps, batch_size=4, key=key, records=records)

    run(7, 1e-3, 0, 3)
    before = compiled()
    run(23, 1e-2, 1, 4)
    run(1, 1e-1, 2, 1)
    assert compiled() == before


def test_a_step_inside_scan_traces_the_network_a_handful_of_times():
    network = Counted()
    sca = scax.SCA(scax.Problem(network.apply, scax.Squared(), scax.L2(1e-3)))
    x, y = data(6)
    run = jax.jit(lambda s: jax.lax.scan(lambda s, _: sca.step(s, (x, y)), s, None, length=50)[0])
    state = sca.init(network.net.init(jax.random.key(0)))
    run(state)
    traced = len(network.shapes)
    assert traced <= 12
    run(state)
    assert len(network.shapes) == traced


def test_a_baseline_compiles_once(compiled):
    network = Counted()
    params = network.net.init(jax.random.key(0))
    optimizer = optax.adam(1e-2)

    def step(strength):
        method = scax.baseline(optimizer, scax.Problem(network.apply, scax.Squared(), scax.L2(strength)))
        method.step(method.init(params), data(6))

    step(1e-3)
    before = compiled()
    step(1e-2)
    assert compiled() == before


def test_no_matrix_of_weights_by_weights_in_sample_space():
    """The default never forms a Q×Q array, and conjugate gradients no Gram matrix either."""
    net = scax.MLP((3, 20, 1))
    params = net.init(jax.random.key(0))
    q = sum(leaf.size for leaf in jax.tree.leaves(params))
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3))
    x, y = data(6)
    for solver in ("auto", "sample-space", "cg"):
        sca = scax.SCA(problem, solver=solver)
        text = str(jax.make_jaxpr(lambda s, sca=sca: sca.step(s, (x, y)))(sca.init(params)))
        assert f"[{q},{q}]" not in text
        if solver == "cg":
            assert f"[6,1,{q}]" not in text
            assert "cholesky" not in text
    assert jnp.isfinite(problem.objective(params, x, y))


def test_equal_networks_share_compiled_steps(compiled):
    def step(net):
        sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)))
        return sca.step(sca.init(net.init(jax.random.key(0))), data(7))

    step(scax.MLP((3, 5, 1)))
    before = compiled()
    step(scax.MLP((3, 5, 1)))
    assert compiled() == before
