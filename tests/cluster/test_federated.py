"""Sites that keep their rows: the step on their sums is the step on all rows."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.cluster import flower
from scax.cluster.exact import DAMPING, ExactRounds, solve
from scax.cluster.local import LocalSites, prox_step, site_update
from scax.cluster.sites import Sites
from scax.cluster.statistics import Reason, Statistics, find_reasons, numbers_sent, pack, site_statistics
from scax.linearize.network import NetworkFunction

NET = scax.MLP((3, 4, 1))
PROBLEM = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3))


def rows(dtype, count=300):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(count, 3)).astype(dtype)
    return x, (np.sin(x[:, 0]) * x[:, 1] + 0.1 * draw.normal(size=count)).astype(dtype)


def start(dtype):
    return jax.tree.map(lambda leaf: leaf.astype(dtype), NET.init(jax.random.key(0)))


def broken_start():
    return jax.tree.map(lambda leaf: leaf * np.float32(np.nan), start(np.float32))


def unlike_sites(x, y):
    """Ten sites, sorted by the first feature, of 5 to 80 rows."""
    places = np.split(np.argsort(x[:, 0]), [5, 40, 70, 80, 100, 130, 190, 200, 280])
    return [(x[i], y[i]) for i in places]


def flat(params):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])


def test_the_step_on_the_sums_of_ten_sites_is_the_step_on_all_rows(dtype):
    """To 1e-5 of the weights in float32, and of the step, which is shorter; to 1e-10 in float64."""
    x, y = rows(dtype)
    ours = scax.federated.simulate(PROBLEM, start(dtype), unlike_sites(x, y), rounds=2)
    method = scax.SCA(PROBLEM, solver="weight-space", damping=DAMPING)
    judge = scax.train(method, start(dtype), (x, y), steps=1, batch_size=None)
    w, exact, before = flat(ours.params), flat(judge.params), flat(start(dtype))
    step = np.linalg.norm(exact - before)
    assert 0.1 < step < np.linalg.norm(exact)
    assert np.linalg.norm(w - exact) <= (1e-5 if dtype == np.float32 else 1e-10) * step


def test_the_solution_on_sums_keeps_the_digits_of_float32(x64):
    """With as many weights as a small network has and a condition of 400; by way of eigenvectors it would be 7e-5."""
    draw = np.random.default_rng(0)
    half = draw.normal(size=(200, 169)) * np.geomspace(1, 1e-3, 169) @ np.linalg.qr(draw.normal(size=(169, 169)))[0]
    a, b, w = half.T @ half / 200, half.T @ draw.normal(size=200) / 200, draw.normal(size=169)
    problem, damping = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-3)), 1e-3
    exact = np.linalg.solve(a + (1e-3 + 2 * damping) * np.eye(169), -(b + 1e-3 * w))
    solution = solve(problem, *(jnp.asarray(part, np.float32) for part in (w, b, a, damping)))
    assert solution.delta.dtype == np.float32
    assert np.linalg.norm(solution.delta - exact) <= 1e-5 * np.linalg.norm(exact)


def test_rounds_go_on_as_the_steps_on_all_rows_do(x64):
    x, y = rows(np.float64)
    ours = scax.federated.simulate(PROBLEM, start(np.float64), unlike_sites(x, y), rounds=9)
    judge = scax.train(
        scax.SCA(PROBLEM, damping=DAMPING), start(np.float64), (x, y), steps=8, batch_size=None, records=range(1, 9)
    )
    np.testing.assert_allclose(ours.history["objective"][1:], judge.history["objective"], rtol=1e-7)
    assert np.all(ours.history["answered"] == 10)
    q = flat(ours.params).size
    assert np.all(ours.history["bytes_up"] == 10 * 8 * (q * (q + 1) // 2 + 2 * q + 3))
    assert np.all(ours.history["bytes_down"] == 10 * 8 * q)


def test_rounds_converge_with_a_fifth_of_the_sites_missing():
    x, y = rows(np.float32)
    sites = unlike_sites(x, y)
    all_there = scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=60)
    result = scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=60, missing=0.2)
    assert np.all(result.history["answered"] == 8)
    assert result.history["objective"][-1] < 1.02 * all_there.history["objective"][-1]


def test_sites_whose_rows_do_not_fit_are_named_and_left_out():
    x, y = rows(np.float32)
    sites = {f"s{i}": site for i, site in enumerate(unlike_sites(x, y))}
    good = dict(list(sites.items())[:6])
    bad = {
        "nan": (np.full((4, 3), np.nan, np.float32), np.zeros(4, np.float32)),
        "columns": (np.zeros((4, 2), np.float32), np.zeros(4, np.float32)),
        "integers": (np.zeros((4, 3), np.int32), np.zeros(4, np.float32)),
        "empty": (np.zeros((0, 3), np.float32), np.zeros(0, np.float32)),
        "half": (np.zeros((4, 3), np.float16), np.zeros(4, np.float32)),
    }
    with pytest.warns(RuntimeWarning) as told:
        result = scax.federated.simulate(PROBLEM, start(np.float32), good | bad, rounds=3)
    for name in bad:
        assert any(f"site {name} is left out" in str(warning.message) for warning in told), name
    alone = scax.federated.simulate(PROBLEM, start(np.float32), good, rounds=3)
    np.testing.assert_array_equal(flat(result.params), flat(alone.params))


@pytest.mark.parametrize("damage", ["nan", "negative"])
def test_a_site_with_impossible_sums_is_counted_and_the_round_goes_on(damage):
    x, y = rows(np.float32)
    sites = [scax.Batch(*site) for site in unlike_sites(x, y)]
    wrong = 2
    method, feed = ExactRounds(PROBLEM, len(sites)), Sites.of(sites)
    if damage == "nan":  # weights and inputs so large that the sums overflow
        sites[wrong] = scax.Batch(sites[wrong].x, sites[wrong].y * np.float32(1e38))
    else:
        sites[wrong] = scax.Batch(sites[wrong].x, sites[wrong].y, np.full(sites[wrong].size, -1, np.float32))
    broken = Sites.of(sites)
    step = jax.jit(method.step)
    ours, others = method.init(start(np.float32)), method.init(start(np.float32))
    mask = np.ones((1, len(sites)), bool)
    without = mask.copy()
    without[0, wrong] = False
    for _ in range(3):
        ours, info = step(ours, broken.batch(jnp.asarray(mask), 0))
        others, _ = step(others, feed.batch(jnp.asarray(without), 0))
        assert (int(info.left_out), int(info.answered)) == (1, 9)
    assert list(np.flatnonzero(ours.refused)) == [wrong]
    np.testing.assert_allclose(ours.w, others.w, rtol=1e-6)


def test_what_is_sent_holds_no_rows():
    x, y = rows(np.float32, 80)
    params = start(np.float32)
    layout = PROBLEM.layout(params)
    network, w, q = NetworkFunction(PROBLEM, layout, ()), layout.flatten(params), layout.size
    few, many = (site_statistics(network, w, scax.Batch(x[:n], y[:n]), jnp.asarray(0)) for n in (7, 80))
    shapes = {field.name: getattr(few, field.name).shape for field in dataclasses.fields(Statistics)}
    assert shapes == {"rows": (), "squares": (), "loss": (), "gradient": (q,), "common": (q,), "hessian": (q, q)}
    assert [leaf.shape for leaf in jax.tree.leaves(few)] == [leaf.shape for leaf in jax.tree.leaves(many)]
    assert numbers_sent(q) == 3 + 2 * q + q * (q + 1) // 2
    # each is a sum over rows: the order of rows and the sites they lie at cannot be told from it
    halves = [site_statistics(network, w, scax.Batch(x[i::2], y[i::2]), jnp.asarray(0)) for i in (0, 1)]
    for whole, a, b in zip(*(jax.tree.leaves(sums) for sums in (many, *halves)), strict=True):
        np.testing.assert_allclose(whole, a + b, rtol=2e-4, atol=2e-4)


def reason_for(sent, squared=False):
    """Why the server leaves out a site that sends these sums in the first round."""
    alone = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], sent)
    return Reason(int(find_reasons(alone, jax.tree.map(jnp.zeros_like, alone), jnp.asarray(jnp.inf), squared)[0]))


def test_the_server_says_why_it_cannot_add_what_a_site_sent():
    x, y = rows(np.float32, 20)
    params = start(np.float32)
    layout = PROBLEM.layout(params)
    network, w = NetworkFunction(PROBLEM, layout, ()), layout.flatten(params)
    sent = site_statistics(network, w, scax.Batch(x, y), jnp.asarray(0))
    assert reason_for(sent) == Reason.NONE
    reason = lambda **change: reason_for(dataclasses.replace(sent, **change)).message
    assert "not finite" in reason(loss=jnp.asarray(jnp.nan))
    assert "positive semidefinite" in reason(hessian=-sent.hessian)
    assert "symmetric" in reason(hessian=sent.hessian + jnp.triu(jnp.ones_like(sent.hessian), 1))
    assert "no rows" in reason(rows=jnp.asarray(0.0))
    assert "square of their sum" in reason(squares=10 * sent.rows**2)


def test_answers_are_read_by_their_form_alone():
    """Shapes and dtypes; what values mean is for the round, which knows what was sent before."""
    x, y = rows(np.float32, 20)
    params = start(np.float32)
    method = ExactRounds(PROBLEM, 1)
    w = PROBLEM.layout(params).flatten(params)
    sent = pack(method.answer(params, w, method.prepare(scax.Batch(x, y)), jnp.asarray(0), jnp.asarray(0)))
    server = flower.Server(method, params)
    for change in ({}, {"loss": sent["loss"] * np.float32(np.nan)}, {"hessian": -sent["hessian"]}):
        read = server.read("A", sent | change)
        assert isinstance(read, Statistics)
        for name, array in (sent | change).items():
            np.testing.assert_array_equal(pack(read)[name], array)
    for change, told in (
        ({"gradient": sent["gradient"][:-1]}, r"site A: its gradient is float32\[20\], expected float32\[21\]"),
        ({"loss": sent["loss"].astype(np.float16)}, "site A: its loss is float16"),
    ):
        with pytest.raises(ValueError, match=told):
            server.read("A", sent | change)
    with pytest.raises(ValueError, match="site A: it sent no hessian"):
        server.read("A", {name: array for name, array in sent.items() if name != "hessian"})


@pytest.mark.parametrize(
    "change",
    [
        {"loss": lambda loss: -loss},
        {"loss": lambda loss: loss / 100},
        {"gradient": lambda b: 100 * b},
        {"hessian": lambda a: a / 1e4},
    ],
)
def test_sums_that_no_squares_could_have_are_refused(change, dtype):
    """The squared loss of the linearized network cannot fall below zero, whatever the rows."""
    x, y = rows(dtype, 20)
    params = start(dtype)
    layout = PROBLEM.layout(params)
    network, w = NetworkFunction(PROBLEM, layout, ()), layout.flatten(params)
    for count in (1, 2, 20):  # few rows: equality
        sent = site_statistics(network, w, scax.Batch(x[:count], y[:count]), jnp.asarray(0))
        assert reason_for(sent, squared=True) == Reason.NONE
    (field, damage), *_ = change.items()
    broken = dataclasses.replace(sent, **{field: damage(getattr(sent, field))})
    assert reason_for(broken) == Reason.NONE  # of another loss they could be
    assert "below 0" in reason_for(broken, squared=True).message


def all_sent(sites, params, changes, count=0):
    """Statistics of all sites at these weights, those of some changed."""
    layout = PROBLEM.layout(params)
    network, w = NetworkFunction(PROBLEM, layout, ()), layout.flatten(params)
    sent = [site_statistics(network, w, scax.Batch(*site), jnp.asarray(count)) for site in sites]
    for site, change in changes.items():
        sent[site] = change(sent[site])
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *sent)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda sent: dataclasses.replace(sent, rows=2 * sent.rows), Reason.OTHER_ROWS),
        (lambda sent: dataclasses.replace(sent, loss=-sent.loss), Reason.NEGATIVE),
        (lambda sent: dataclasses.replace(sent, hessian=-sent.hessian), Reason.NOT_SEMIDEFINITE),
    ],
)
def test_absurd_sums_are_refused_by_name_and_the_round_goes_on(change, reason):
    x, y = rows(np.float32)
    sites, params = unlike_sites(x, y), start(np.float32)
    method, everyone = ExactRounds(PROBLEM, 10), jnp.ones(10, bool)
    state, _ = jax.jit(method.receive)(method.init(params), all_sent(sites, params, {}), everyone)
    assert not np.any(state.is_bad)
    state, info = jax.jit(method.receive)(state, all_sent(sites, params, {4: change}), everyone)
    assert (int(info.answered), int(info.left_out), int(info.overflowed)) == (9, 1, 0)
    assert list(np.flatnonzero(state.is_bad)) == [4]
    assert Reason(int(state.reason[4])) == reason
    assert np.all(np.isfinite(state.w))


def test_a_site_with_more_rows_than_can_be_is_refused():
    """Its sums are a billion times those of its rows: the others' would vanish."""
    x, y = rows(np.float32)
    change = lambda sent: dataclasses.replace(jax.tree.map(lambda leaf: 1e9 * leaf, sent), squares=1e18 * sent.squares)
    method, params = ExactRounds(PROBLEM, 10), start(np.float32)
    sent = all_sent(unlike_sites(x, y), params, {4: change})
    state, _ = jax.jit(method.receive)(method.init(params), sent, jnp.ones(10, bool))
    assert [Reason(int(reason)) for reason in state.reason] == [Reason.UNLIKE if i == 4 else 0 for i in range(10)]


def fitted_but_one(x, y, params):
    """The targets of nine sites are nearly the network's own; those of the tenth are far off."""
    z = np.asarray(NET.apply(params, x))[:, 0] + 1e-6 * y
    sites = unlike_sites(x, z)
    return PROBLEM, [*sites[:9], (sites[9][0], sites[9][1] + np.float32(3))], params


def sorted_by_target(x, y, params):
    """Nearly all targets are almost 0, as at first the network is; the last site has the large ones."""
    y = np.where(x[:, 0] > 1, np.exp(3 * x[:, 0]), 1e-5 * y).astype(np.float32)
    sites = [(x[i], y[i]) for i in np.array_split(np.argsort(y), 10)]
    *before, last = params
    return PROBLEM, sites, [*before, jax.tree.map(jnp.zeros_like, last)]


def one_tenfold(x, y, params):
    """The rows of one site are ten times the others', and so are its targets."""
    sites = unlike_sites(x, y)
    return PROBLEM, [*sites[:9], (10 * sites[9][0], 10 * sites[9][1])], params


def certain_but_one(x, y, params):
    """Nine sites have one class, of which the network is certain; the tenth has the other."""
    net = scax.MLP((3, 4, 2))
    *before, last = net.init(jax.random.key(0))
    last = last | {"bias": jnp.asarray([12.0, -12.0])}
    sites = [(own, np.full(len(own), i == 9, np.int32)) for i, (own, _) in enumerate(unlike_sites(x, y))]
    return scax.Problem(net.apply, scax.Softmax(), scax.L2(1e-3)), sites, [*before, last]


@pytest.mark.parametrize("kind", [fitted_but_one, sorted_by_target, one_tenfold, certain_but_one])
@pytest.mark.parametrize("scheme", ["exact", "local"])
def test_no_site_is_left_out_for_what_its_rows_are(kind, scheme):
    """The site that has something to say is heard, however small the others' losses, gradients and steps are."""
    problem, sites, params = kind(*rows(np.float32), start(np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = scax.federated.simulate(problem, params, sites, rounds=6, scheme=scheme)
    assert np.all(result.history["answered"] == 10)
    assert np.all(result.history["left_out"] == 0)
    if scheme == "exact":
        assert result.history["objective"][-1] <= result.history["objective"][0]


def test_a_site_may_count_a_million_times_as_much_as_the_others():
    x, y = rows(np.float32)
    sites = unlike_sites(x, y)
    result = scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=3, weights=[1e7, *[1] * 9])
    alone = scax.federated.simulate(PROBLEM, start(np.float32), sites[:1], rounds=3)
    assert np.all(result.history["answered"] == 10)
    np.testing.assert_allclose(flat(result.params), flat(alone.params), rtol=1e-3, atol=1e-3)


UNBOUNDED = {
    "infinite loss": (lambda sent: dataclasses.replace(sent, loss=jnp.inf * sent.loss), Reason.NOT_FINITE),
    "no gradient": (lambda sent: dataclasses.replace(sent, gradient=jnp.nan * sent.gradient), Reason.NOT_FINITE),
    "loss": (lambda sent: dataclasses.replace(sent, loss=1e9 * sent.loss), Reason.LEAP),
    "hessian": (lambda sent: dataclasses.replace(sent, hessian=1e9 * sent.hessian), Reason.UNLIKE),
}


@pytest.fixture
def ask():
    """(method, the state after a first round without faults, function that makes the next round with some changed)."""
    x, y = rows(np.float32)
    sites, params = unlike_sites(x, y), start(np.float32)
    method, layout = ExactRounds(PROBLEM, 10), PROBLEM.layout(params)
    receive, trial = jax.jit(method.receive), jax.jit(method.trial)

    def next_round(state, changes, missing=()):
        sent = all_sent(sites, layout.unflatten(trial(state), ()), changes, int(state.count))
        replied = np.isin(np.arange(10), missing, invert=True)
        following, info = receive(state, sent, jnp.asarray(replied))
        assert int(info.answered + info.left_out + info.overflowed) == 10 - len(missing)
        return following, info

    return trial, next_round(method.init(params), {})[0], next_round


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_the_step_is_blamed_for_numbers_without_bounds_until_it_cannot_be(ask, kind):
    """Twice a shorter step is tried; then the weights are sent at which the sums were right. A site whose sums are
    wrong there as well is left out from then on, and the rounds go on."""
    trial, state, next_round = ask
    (change, reason), start_w, before = UNBOUNDED[kind], state.w, np.inf
    for _ in range(2):
        length = float(jnp.linalg.norm(trial(state) - state.w))
        assert 0 < length < before
        before = length
        state, info = next_round(state, {4: change})
        assert (int(info.answered), int(info.left_out), int(info.overflowed)) == (9, 0, 1)
        assert not bool(info.accepted)
        assert not np.any(state.refused)
    np.testing.assert_array_equal(trial(state), start_w)
    state, info = next_round(state, {4: change})
    assert (int(info.answered), int(info.left_out), int(info.overflowed)) == (9, 1, 0)
    assert list(np.flatnonzero(state.refused)) == [4]
    assert Reason(int(state.reason[4])) == reason
    for _ in range(2):  # nothing is forgiven any more
        assert float(jnp.linalg.norm(trial(state) - state.w)) > 0
        state, info = next_round(state, {4: change})
        assert (bool(info.accepted), int(info.left_out), int(info.overflowed)) == (True, 1, 0)
    assert list(state.refused) == [3 * (i == 4) for i in range(10)]
    state, info = next_round(state, {})  # and it may come back
    assert (int(info.answered), int(info.left_out)) == (10, 0)


@pytest.mark.parametrize("kind", UNBOUNDED)
def test_a_site_for_which_steps_are_too_long_is_never_blamed(ask, kind):
    """Its sums are right where they were before: the step has to become short enough for it."""
    trial, state, next_round = ask
    change, _ = UNBOUNDED[kind]
    lengths, overflowed, moved = [], [], []
    for _ in range(9):
        lengths.append(float(jnp.linalg.norm(trial(state) - state.w)))
        state, info = next_round(state, {4: change} if lengths[-1] > 0.02 else {})
        overflowed.append(int(info.overflowed))
        moved.append(bool(info.accepted) and lengths[-1] > 0)
        if moved[-1]:
            break
    assert not np.any(state.refused)
    assert moved[-1]
    assert overflowed[:3] == [1, 1, 0]
    assert lengths[2] == 0  # asked again where its sums were right


def test_a_site_that_is_doubted_and_gone_does_not_hold_the_others_up(ask):
    trial, state, next_round = ask
    change, _ = UNBOUNDED["infinite loss"]
    for _ in range(2):
        state, _ = next_round(state, {4: change})
    state, info = next_round(state, {}, missing=[4])
    assert not np.any(state.refused)
    assert float(jnp.linalg.norm(trial(state) - state.w)) > 0
    state, info = next_round(state, {}, missing=[4])
    assert bool(info.accepted)


def test_a_site_that_comes_late_is_not_judged_by_its_loss(ask):
    """What it has to say may be more than all others have left."""
    _, state, next_round = ask
    fresh = dataclasses.replace(
        state,
        has_answered=state.has_answered.at[4].set(False),
        models=jax.tree.map(lambda leaf: leaf.at[4].set(0), state.models),
    )
    state, info = next_round(fresh, {4: UNBOUNDED["loss"][0]})
    assert (int(info.answered), int(info.left_out), int(info.overflowed)) == (10, 0, 0)


@pytest.mark.parametrize("honest", [10, 1])
def test_a_run_whose_first_steps_are_too_long_leaves_no_site_out(honest):
    """exp(x w) overflows where x is large, at one site of ten or at the only one; the history says what happened."""
    draw = np.random.default_rng(0)
    apply = lambda w, x: jnp.exp(x @ w)[:, None]
    problem = scax.Problem(apply, scax.Squared(), scax.L2(1e-6))
    most = [60.0, *[1.0] * 9][:honest]
    x = [draw.uniform(0, largest, (20, 2)).astype(np.float32) for largest in most]
    sites = [(own, np.exp(own @ np.array([0.05, -0.02])).astype(np.float32)) for own in x]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = scax.federated.simulate(problem, jnp.asarray([-1.0, -1.0]), sites, rounds=60)
    history = result.history
    assert np.sum(history["overflowed"]) > 0
    assert np.all(history["left_out"] == 0)
    assert np.all(history["answered"] + history["overflowed"] == honest)
    np.testing.assert_allclose(flat(result.params), [0.05, -0.02], atol=1e-3)


def test_absurd_updates_of_local_rounds_are_refused():
    x, y = rows(np.float32)
    batches = [scax.Batch(*site) for site in unlike_sites(x, y)]
    method = scax.federated.Local(steps=2, batch_size=8).rounds(PROBLEM, 10)
    state = method.init(start(np.float32))
    own = lambda site: method.prepare(batches[site])
    answer = jax.jit(method.answer)
    sent = [answer(start(np.float32), method.trial(state), own(i), state.count, jnp.asarray(i)) for i in range(10)]
    sent = jax.tree.map(lambda *leaves: jnp.stack(leaves), *sent)
    everyone = jnp.ones(10, bool)
    state, _ = method.receive(state, sent, everyone)
    sent = dataclasses.replace(
        sent, delta=sent.delta.at[1].multiply(1e12), rows=sent.rows.at[2].set(7), loss=sent.loss.at[3].set(jnp.nan)
    )
    state, info = method.receive(state, sent, everyone)
    assert int(info.records["left_out"]) == 3
    assert [Reason(int(state.reason[i])) for i in (1, 2, 3)] == [Reason.TOO_FAR, Reason.OTHER_ROWS, Reason.NOT_FINITE]


@pytest.mark.parametrize("penalty", ["l1", "groups"])
def test_sparse_penalties_are_solved_at_the_server(penalty):
    """As they are with all rows in one place: the same step, the same zeros."""
    x, y = rows(np.float32)
    params = start(np.float32)
    sparse = scax.L1(0.1) if penalty == "l1" else scax.GroupLasso(0.1, scax.neuron_groups(params))
    problem = scax.Problem(NET.apply, scax.Squared(), sparse)
    result = scax.federated.simulate(problem, params, unlike_sites(x, y), rounds=2)
    method = scax.SCA(problem, solver="semismooth", damping=DAMPING).on_all_rows()
    judge, _ = method.step(method.init(params), (x, y))
    w, exact = flat(result.params), flat(judge.params)
    assert np.linalg.norm(w - flat(params)) > 0.1  # a step was taken
    np.testing.assert_allclose(w, exact, atol=1e-4)
    np.testing.assert_array_equal(w == 0, exact == 0)
    assert 0 < np.sum(w == 0) < w.size


def test_weights_of_sites_change_the_result():
    x, y = rows(np.float32)
    sites = unlike_sites(x, y)
    by_rows = scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=3)
    same = scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=3, weights=[len(s[1]) for s in sites])
    equal = scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=3, weights=np.ones(10))
    np.testing.assert_allclose(flat(same.params), flat(by_rows.params), rtol=1e-3, atol=1e-3)
    assert np.linalg.norm(flat(equal.params) - flat(by_rows.params)) > 1e-2


def test_weights_below_one_hold_for_rows_of_whole_numbers():
    x = np.arange(24).reshape(12, 2) % 5
    apply = lambda params, x: params["table"][x].sum(axis=1) @ params["out"]
    params = {"table": np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3), "out": np.ones((3, 1), np.float32)}
    sites = [(x[:6], np.ones(6, np.float32)), (x[6:], np.zeros(6, np.float32))]
    problem = scax.Problem(apply, scax.Squared(), scax.L2(1e-3))
    result = scax.federated.simulate(problem, params, sites, rounds=2, weights=[0.5, 1.0])
    np.testing.assert_array_equal(result.history["answered"], 2)


def test_the_start_is_blamed_where_no_site_can_be_used():
    x, y = rows(np.float32)
    huge = jax.tree.map(lambda leaf: leaf * np.float32(1e30), start(np.float32))
    for scheme in ("exact", "local"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = scax.federated.simulate(PROBLEM, huge, unlike_sites(x, y), rounds=2, scheme=scheme)
        (told,) = [str(warning.message) for warning in caught]
        assert "not one site could be used in 2 rounds" in told
        assert "not finite" in told
        assert "smaller weights" in told
        np.testing.assert_array_equal(flat(result.params), flat(huge))


def test_rows_of_another_kind_are_told_in_words():
    x, y = rows(np.float32)
    sites = {"most": (x, y), "half": (x[:9].astype(np.float16), y[:9]), "column": (x[:9], y[:9, None])}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=1)
    half, column = [str(warning.message) for warning in caught]
    most = r"; most rows are x float32[rows, 3], y float32[rows]: give all sites the same."
    assert half == f"site half is left out: its rows are x float16[rows, 3], y float32[rows]{most}"
    assert column == f"site column is left out: its rows are x float32[rows, 3], y float32[rows, 1]{most}"


@pytest.mark.parametrize("scheme", ["exact", "local"])
def test_sites_of_one_row_and_of_ten_thousand_train_together(scheme):
    x, y = rows(np.float32, 10_001)
    sites = [(x[:1], y[:1]), (x[1:], y[1:])]
    result = scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=6, scheme=scheme)
    assert list(result.history["answered"]) == [2] * 6
    assert result.history["objective"][-1] < 0.5 * float(PROBLEM.objective(start(np.float32), x, y))


@pytest.mark.parametrize("scheme", ["exact", "local"])
def test_rows_of_half_precision_are_counted_in_that_of_the_weights(scheme):
    """3001 has no float16."""
    x, y = rows(np.float32, 3002)
    sites = [(x[:3001].astype(np.float16), y[:3001]), (x[3001:].astype(np.float16), y[3001:])]
    result = scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=1, scheme=scheme)
    counted = result.state.rows if scheme == "local" else result.state.models.rows
    np.testing.assert_array_equal(counted, [3001, 1])
    method = scax.federated.Local(steps=1).rounds(PROBLEM, 2) if scheme == "local" else ExactRounds(PROBLEM, 2)
    w = method.init(start(np.float32)).w
    own = method.prepare(PROBLEM.ready(start(np.float32), sites[0]))
    sent = method.answer(start(np.float32), w, own, jnp.int32(0), jnp.int32(0))
    assert {leaf.dtype.name for leaf in jax.tree.leaves(sent)} == {"float32"}


def test_names_of_sites_in_warnings_are_no_escapes():
    x, y = rows(np.float32)
    sites = {"a": (x, y), "\x1b[31mb": (x[:0], y[:0])}
    with pytest.warns(RuntimeWarning, match=r"site \\x1b\[31mb is left out"):
        scax.federated.simulate(PROBLEM, start(np.float32), sites, rounds=1)


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"sites": 5}, TypeError, "list of"),
        ({"sites": []}, ValueError, "sites is empty"),
        ({"sites": [None]}, ValueError, "Site 0: a batch is"),
        ({"sites": [("a", rows(np.float32)), ("a", rows(np.float32))]}, TypeError, "has no names: give sites={name"),
        ({"weights": 1.0}, ValueError, "weights has shape"),
        ({"weights": [1.0, np.nan]}, ValueError, "weights must be"),
        ({"missing": 1.0}, ValueError, "missing"),
        ({"rounds": 0}, ValueError, "rounds"),
        ({"key": 3}, TypeError, "one random key"),
        ({"scheme": "exat"}, ValueError, "Did you mean 'exact'"),
        ({"local": scax.federated.Local()}, ValueError, "scheme='local'"),
        ({"params": broken_start(), "scheme": "local"}, ValueError, "^params.*not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:site 0 is left out")
def test_what_cannot_be_simulated_is_refused(change, error, told):
    x, y = rows(np.float32, 20)
    given = {"problem": PROBLEM, "params": start(np.float32), "sites": [(x[:9], y[:9]), (x[9:], y[9:])]}
    with pytest.raises(error, match=told):
        scax.federated.simulate(**given | change)


def test_problems_whose_rows_do_not_add_up_are_refused():
    x, y = rows(np.float32)
    graph = scax.Manifold(1e-3, scax.knn_graph(x, 2))
    terms = scax.Problem({"fit": scax.Term(NET.apply, scax.Squared())})
    for problem, told in ((dataclasses.replace(PROBLEM, manifold=graph), "neighbors"), (terms, "without terms")):
        with pytest.raises(ValueError, match=told):
            scax.federated.simulate(problem, start(np.float32), [(x, y)])


def test_a_local_round_is_the_mean_of_what_sites_make_of_the_weights():
    x, y = rows(np.float32)
    batches = [scax.Batch(*site) for site in unlike_sites(x, y)[:3]]
    method, feed = scax.federated.Local(steps=3, batch_size=8).rounds(PROBLEM, 3), LocalSites.of(batches, 8)
    state = method.init(start(np.float32))
    batch = feed.batch(jnp.ones((1, 3), bool), 0)
    key = lambda site: jax.random.fold_in(jax.random.fold_in(jax.random.key(0), 0), site)
    own = lambda site: jax.tree.map(lambda leaf: leaf[site], batch.rows)
    sent = [site_update(method.local, state.layout, (), state.w, own(site), 3, key(site)) for site in range(3)]
    assert [float(one.rows) for one in sent] == [5, 35, 30]
    following, info = jax.jit(method.step)(state, batch)
    mean = sum(one.rows * one.delta for one in sent) / 70
    assert np.linalg.norm(mean) > 0.1
    np.testing.assert_allclose(following.w - state.w, mean, atol=2e-5)
    assert int(info.records["bytes_up"]) == 3 * 4 * (state.layout.size + 2)
    # a second site that sends what is not a number is left out of the mean
    batches[1] = scax.Batch(batches[1].x, batches[1].y * np.float32(1e38))
    without, info = jax.jit(method.step)(state, LocalSites.of(batches, 8).batch(jnp.ones((1, 3), bool), 0))
    assert int(info.records["left_out"]) == 1
    assert list(without.refused) == [0, 1, 0]
    mean = (sent[0].rows * sent[0].delta + sent[2].rows * sent[2].delta) / 35
    np.testing.assert_allclose(without.w - state.w, mean, atol=2e-5)
    assert {leaf.shape for leaf in jax.tree.leaves(sent[0])} == {(), (state.layout.size,)}  # and no rows


def test_local_rounds_with_missing_sites_lower_the_objective_and_carry_their_step():
    x, y = rows(np.float32)
    local = scax.federated.Local(steps=4, batch_size=16)
    run = lambda **how: scax.federated.simulate(
        PROBLEM, start(np.float32), unlike_sites(x, y), rounds=15, scheme="local", missing=0.2, **how
    )
    carried = run(local=local)
    assert np.all(carried.history["answered"] == 8)
    assert carried.history["objective"][-1] < 0.5 * carried.history["objective"][0]
    plain = run(local=dataclasses.replace(local, carry=0.0))
    assert np.linalg.norm(flat(plain.params) - flat(carried.params)) > 1e-2


def test_equal_sites_draw_different_rows_in_their_own_processes():
    """The key of a site is its number's, as in a simulation."""
    x, y = rows(np.float32, 64)
    method = scax.federated.Local(steps=2, batch_size=8).rounds(PROBLEM, 2)
    state = method.init(start(np.float32))
    answer = lambda site: method.answer(
        start(np.float32), state.w, method.prepare(scax.Batch(x, y)), state.count, jnp.asarray(site)
    )
    assert np.linalg.norm(answer(0).delta - answer(1).delta) > 1e-3
    simulated, _ = jax.jit(method.step)(
        state, LocalSites.of([scax.Batch(x, y)] * 2, 8).batch(jnp.ones((1, 2), bool), 0)
    )
    np.testing.assert_allclose(simulated.w - state.w, (answer(0).delta + answer(1).delta) / 2, atol=2e-5)


@pytest.mark.parametrize("penalty", ["l1", "groups"])
def test_local_rounds_with_a_sparse_penalty_end_with_zeros(penalty):
    x, y = rows(np.float32)
    params = start(np.float32)
    sparse = scax.L1(0.02) if penalty == "l1" else scax.GroupLasso(0.02, scax.neuron_groups(params))
    problem = scax.Problem(NET.apply, scax.Squared(), sparse + scax.L2(1e-3))
    local = scax.federated.Local(steps=5, batch_size=16)
    alike = [(x[i::5], y[i::5]) for i in range(5)]
    result = scax.federated.simulate(problem, params, alike, rounds=60, scheme="local", local=local)
    w = flat(result.params)
    assert 0 < np.sum(w == 0) < w.size
    ended = scax.finish(problem, result.params, (x, y))
    assert problem.objective(result.params, x, y) < 1.1 * problem.objective(ended, x, y)
    assert result.history["bytes_up"][0] == 5 * 4 * (2 * w.size + 2)


def test_the_server_of_local_rounds_stands_still_where_the_penalty_does():
    """At δ = 0 and −slope ∈ ∂R(x); elsewhere small weights become zeros."""
    x = jnp.asarray([0.5, -0.2, 0.0, 0.0])
    slope = jnp.asarray([-0.3, 0.3, 0.2, -0.1])
    np.testing.assert_array_equal(prox_step(scax.L1(0.3), x, slope, jnp.zeros(4)), x)
    delta = jnp.asarray([0.1, 0.0, 1e-4, 0.0])
    moved = prox_step(scax.L1(0.3), x, slope, delta)
    np.testing.assert_array_equal(moved == 0, [False, False, True, True])
    assert abs(float(moved[0]) - 0.6) < 1e-5


def test_names_of_sites_do_not_speak_to_the_terminal():
    with pytest.warns(RuntimeWarning) as said:
        flower._warn("site \x1b[2J" + "x" * 10_000)
    told = str(said[0].message)
    assert "\\x1b[2J" in told
    assert "\x1b" not in told
    assert len(told) < 1000
