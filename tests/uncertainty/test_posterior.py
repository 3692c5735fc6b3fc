"""Error bars: every form against the dense formula, leave-one-out against refits, evidence against integration."""

import jax
import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

import scax
from scax import posterior
from scax._gaussian import interval_factors
from scax.storage.error_bars import NetworkJacobian
from scax.uncertainty.error_bars import by_evidence
from scax.uncertainty.fit import fit
from scax.uncertainty.posterior import Rows

from ..cases import LOSSES

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-1, 1, (30, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RANDOM.standard_normal(30)
NET = scax.MLP((2, 5, 1))


def linear(params, x):
    return x @ params["w"]


@pytest.fixture(scope="module")
def trained():
    with jax.enable_x64(True):
        problem = scax.Problem(NET.apply, scax.Squared(), scax.L2(1e-2))
        params = jax.tree.map(np.asarray, NET.init(jax.random.key(0)))
        params = jax.tree.map(lambda leaf: leaf.astype(np.float64), params)
        result = scax.train(scax.SCA(problem), params, (X, Y), steps=400, batch_size=None)
        return problem, jax.tree.map(np.asarray, result.params)


def dense(problem, params, post):
    """J, A and σ² by the plainest formulas."""
    with jax.enable_x64(True):
        layout = problem.layout(params)
        f = lambda w: problem.outputs(layout.unflatten(w), X)[:, 0]
        w = layout.flatten(params)
        j, e = np.asarray(jax.jacobian(f)(w)), Y - np.asarray(f(w))
    a = j.T @ j + len(X) * float(problem.regularizer.ridge) / 2 * np.eye(len(w))
    gamma = np.trace(np.linalg.solve(a, j.T @ j))
    return j, e, a, gamma, e @ e / (len(X) - gamma)


@pytest.mark.parametrize("form", ["weight-space", "sample-space", "low-rank"])
def test_every_form_gives_the_dense_formula(trained, form):
    problem, params = trained
    post = posterior(problem, params, (X, Y), form=form)
    j, _, a, gamma, variance = dense(problem, params, post)
    std = np.sqrt(variance * np.einsum("nq,qn->n", j, np.linalg.solve(a, j.T)))
    np.testing.assert_allclose(post.predict(X)[1][:, 0], std, rtol=1e-6)
    np.testing.assert_allclose([post.effective_weights, post.noise**2], [gamma, variance], rtol=1e-6)
    np.testing.assert_allclose(post.leverage.sum(), gamma, rtol=1e-8)
    # draws have that std
    drawn = post.sample(jax.random.key(1), 4000)(X[:3])[:, :, 0]
    np.testing.assert_allclose(drawn.std(0), std[:3], rtol=0.1)


def test_leave_one_out_equals_refits_of_the_linearized_model(trained):
    problem, params = trained
    post = posterior(problem, params, (X, Y))
    j, e, _, _, _ = dense(problem, params, post)
    ridge = len(X) * 1e-2 / 2
    w = post.jacobian.w
    target = e + j @ w  # z(v) = f + J(v − w)
    for i in range(4):
        keep = np.arange(len(X)) != i
        v = np.linalg.solve(j[keep].T @ j[keep] + ridge * np.eye(len(w)), j[keep].T @ target[keep])
        np.testing.assert_allclose(post.leave_one_out()[i, 0], (target - j @ v)[i], atol=1e-4)


def test_a_linear_model_is_bayesian_ridge():
    x = RANDOM.standard_normal((60, 3))
    y = x @ [1.0, -2.0, 0.5] + 0.3 * RANDOM.standard_normal(60)
    judge = BayesianRidge(fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-10, max_iter=2000)
    judge.fit(x, y)
    ridge = 2 * judge.lambda_ / judge.alpha_ / 60  # λN/2 = lambda_/alpha_
    problem = scax.Problem(linear, scax.Squared(), scax.L2(float(ridge)))
    post = posterior(problem, {"w": judge.coef_}, (x, y))
    np.testing.assert_allclose(post.predict(x, noise=True)[1], judge.predict(x, return_std=True)[1], rtol=1e-3)
    np.testing.assert_allclose(post.ridge_update, ridge, rtol=1e-3)  # the evidence's fixed point


def test_evidence_is_the_integral():
    x, y = np.array([[0.5], [1.0], [-1.5]]), np.array([0.4, 1.2, -1.3])
    problem = scax.Problem(linear, scax.Squared(), scax.L2(0.2))
    w = (x[:, 0] @ y) / (x[:, 0] @ x[:, 0] + 3 * 0.2 / 2)
    post = posterior(problem, {"w": np.array([w])}, (x, y), noise=0.5)
    grid = np.linspace(-20, 20, 200_001)
    alpha = 3 * 0.2 / (2 * 0.25)  # prior precision N·ridge/T
    log = -((y[:, None] - x * grid) ** 2).sum(0) / 0.5 - 1.5 * np.log(2 * np.pi * 0.25)
    log = log - alpha / 2 * grid**2 + np.log(alpha / (2 * np.pi)) / 2
    np.testing.assert_allclose(post.evidence, np.log(np.sum(np.exp(log)) * (grid[1] - grid[0])), rtol=1e-8)


def test_probabilities_of_several_classes_are_softer_and_sum_to_one():
    x = RANDOM.standard_normal((40, 2))
    labels = (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)
    problem = scax.Problem(lambda p, x: x @ p["w"], scax.Softmax(), scax.L2(1e-2))
    start = {"w": np.zeros((2, 3))}
    with jax.enable_x64(True):
        params = scax.train(scax.SCA(problem), start, (x, labels), steps=60, batch_size=None).params
    post = posterior(problem, params, (x, labels))
    p = post.predict_proba(x)
    np.testing.assert_allclose(p.sum(1), 1)
    z = post.calibration[0] * post.predict(x)[0]
    plain = np.exp(z - z.max(1, keepdims=True))
    assert np.mean(p.max(1)) < np.mean((plain / plain.sum(1, keepdims=True)).max(1))


def test_a_sparse_network_has_bars_on_its_support(trained):
    _, params = trained
    params = jax.tree.map(np.array, params)
    params[0]["weight"][:, 0] = 0
    problem = scax.Problem(NET.apply, scax.Squared(), scax.L1(1e-3) + scax.L2(1e-2))
    with pytest.warns(UserWarning, match="not at a minimum"):
        post = posterior(problem, params, (X, Y))
    assert len(post.jacobian.support) == post.jacobian.layout.size - 2
    assert np.isfinite(post.predict(X)[1]).all()


def test_it_warns_of_nothing_where_jax_is_in_single_precision(trained, recwarn):
    problem, params = trained
    with jax.enable_x64(False):
        posterior(problem, params, (X, Y))
    assert not [str(each.message) for each in recwarn]


def test_a_fit_without_penalty_is_not_said_to_be_far_from_its_minimum(recwarn):
    problem = scax.Problem(linear, scax.Squared(), scax.L2(0.0))
    w = np.linalg.lstsq(X, Y, rcond=None)[0]
    posterior(problem, {"w": w[:, None]}, (X, Y))
    assert not [str(each.message) for each in recwarn]


def test_intervals_cover_and_bad_input_is_a_sentence(trained):
    problem, params = trained
    post = posterior(problem, params, (X, Y))
    bounds = post.predict_interval(X, 0.9)
    assert bounds.shape == (30, 2)
    assert 0.8 <= np.mean((bounds[:, 0] <= Y) & (bounds[:, 1] >= Y)) <= 1
    with pytest.raises(ValueError, match="between 0 and 1"):
        post.predict_interval(X, 95)
    with pytest.raises(ValueError, match="y has 1 value"):
        post.predict_interval(X, held_out=(X, np.where(np.arange(30) == 3, np.nan, Y)))
    with pytest.raises(ValueError, match="x has 1 value"):
        post.predict_interval(X, held_out=(np.where(X[3, 0] == X, np.nan, X), Y))
    with pytest.raises(ValueError, match="30 rows of 1 output"):
        post.predict_interval(X, held_out=(X, Y[:5]))
    with pytest.raises(ValueError, match="singular"):
        posterior(problem, params, (X[:5], Y[:5]), ridge=0.0, form="weight-space")
    with pytest.raises(ValueError, match="ridge 0"):
        posterior(problem, params, (X[:5], Y[:5]), ridge=0.0)
    with pytest.raises(ValueError, match="noise cannot be estimated"):
        posterior(problem, params, (X[:5], Y[:5]), ridge=1e-10)
    terms = scax.Problem({"pde": scax.Term(NET.apply), "edge": scax.Term(NET.apply)})
    with pytest.raises(ValueError, match="the terms pde, edge"):
        posterior(terms, params, {"pde": X, "edge": X})


def outputs_of(params, x):
    return np.tanh(1.0) * x @ params["w"] + params["b"]


@pytest.mark.parametrize("name", ["logistic", "softmax", "huber", "poisson", "squared"])
def test_weight_and_sample_space_agree_for_every_loss_with_frozen_weights(name):
    case = LOSSES[name]
    y = case.draw(0, 30, 3)
    params = {"w": RANDOM.standard_normal((2, 3)), "b": np.zeros(3)}
    trainable = {"w": True, "b": False}
    problem = scax.Problem(outputs_of, case.loss, scax.L2(0.1), trainable=trainable)
    with pytest.warns(UserWarning, match="not at a minimum"):
        one, other = (posterior(problem, params, (X, y), form=form) for form in ("weight-space", "sample-space"))
    assert len(one.jacobian.support) == 6  # b is frozen
    for a, b in zip(one.predict(X), other.predict(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    np.testing.assert_allclose(one.effective_weights, other.effective_weights, rtol=1e-8)
    np.testing.assert_allclose(one.evidence, other.evidence, rtol=1e-8)
    np.testing.assert_allclose(one.leave_one_out(), other.leave_one_out(), rtol=1e-6, atol=1e-9)


def test_the_last_layer_alone_is_regression_on_its_inputs(trained):
    problem, params = trained
    post = posterior(problem, params, (X, Y), form="last-layer")
    hidden = np.column_stack([np.ones(30), np.tanh(X @ params[0]["weight"] + params[0]["bias"])])
    a = hidden.T @ hidden + 30 * float(problem.regularizer.ridge) / 2 * np.eye(6)
    variance = post.noise**2 * np.einsum("nq,qn->n", hidden, np.linalg.solve(a, hidden.T))
    np.testing.assert_allclose(post.predict(X)[1][:, 0] ** 2, variance, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the weights are not at a minimum")
def test_directions_end_where_they_tell_all_and_say_how_far_off_they_may_be(monkeypatch):
    x = RANDOM.uniform(-1, 1, (300, 1))
    y = np.sin(2 * x[:, 0])
    net = scax.MLP((1, 40, 1))
    problem = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-2))
    params = net.init(jax.random.key(0))
    made = lambda form: posterior(problem, params, (x, y), form=form, noise=0.1)
    exact = made("weight-space")
    for name, value in {"BLOCK": 8, "SMALL_SIDE": 50, "TRIED": 2}.items():
        monkeypatch.setattr(f"scax.uncertainty.fit.{name}", value)
    whole = made("auto")
    monkeypatch.setattr("scax.uncertainty.fit.MOST_KEPT", 0)
    in_chunks = made("low-rank")
    monkeypatch.setattr("scax.uncertainty.fit.RANK", len(whole.gaussian.factor) - 5)
    part = made("low-rank")
    std = exact.predict(x)[1]
    assert whole.explain().startswith("low-rank")
    for post in (whole, in_chunks):
        np.testing.assert_allclose(post.predict(x)[1], std, rtol=1e-5)
        np.testing.assert_allclose(post.evidence, exact.evidence, rtol=1e-5)
    off = np.max(np.abs(part.predict(x)[1] / std - 1))
    assert 1e-8 < off < float(part.explain().split("bars within ")[1].split()[0])
    monkeypatch.setattr("scax.uncertainty.fit.TRIED", 60)  # two directions are not all
    assert made("auto").explain().startswith("weight-space: exact")


def test_groups_of_weights_follow_the_evidence_and_tell_which_inputs_matter():
    random = np.random.default_rng(0)
    x, new = random.uniform(-1, 1, (120, 4)), random.uniform(-1, 1, (500, 4))
    curve = lambda x: np.sin(3 * x[:, 0])
    y = curve(x) + 0.1 * random.standard_normal(120)
    net = scax.MLP((4, 8, 1))
    problem, start = scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)), net.init(jax.random.key(0))
    error, evidence = [], []
    for groups in ("one", "inputs"):
        params, last, post = scax.train_by_evidence(problem, start, (x, y), groups=groups, steps=240, stretches=6)
        error.append(np.mean((np.asarray(last.apply(params, new))[:, 0] - curve(new)) ** 2))
        evidence.append(post.evidence)
    assert error[1] < 0.7 * error[0]
    assert evidence[1] > evidence[0] + 10
    strengths = (1e-3 / params["scale"][0]["weight"] ** 2).ravel()
    assert strengths[0] < 0.1 * strengths[1:].min()
    own = jax.tree.map(np.multiply, params["scale"], params["weights"])
    np.testing.assert_allclose(net.apply(own, new), last.apply(params, new), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="a row for every column"):
        scax.train_by_evidence(
            scax.Problem(linear, scax.Squared(), scax.L2(1e-3)), {"w": np.zeros(4)}, (x, y), groups="inputs"
        )


def test_the_variances_of_weights_are_the_diagonal_of_the_inverse(trained):
    problem, params = trained
    post = posterior(problem, params, (X, Y))
    _, _, a, _, _ = dense(problem, params, post)
    for form in ("weight-space", "sample-space"):
        post = posterior(problem, params, (X, Y), form=form)
        np.testing.assert_allclose(post.gaussian.variances(), np.diag(np.linalg.inv(a)) / 2, rtol=1e-6)


def test_intervals_are_asymmetric_where_residuals_are_skewed():
    random = np.random.default_rng(0)
    even, skewed, new = random.standard_normal(400), random.exponential(1, 400) - 1, random.exponential(1, 20_000) - 1
    low, high = interval_factors(even, 0.9)
    assert low == -high
    low, high = interval_factors(skewed, 0.9)
    assert high > 1.5 * -low
    assert abs(np.mean((low <= new) & (new <= high)) - 0.9) < 0.03


@pytest.mark.parametrize(("loss", "outputs"), [(scax.Squared(), 1), (scax.Huber(0.5), 2), (scax.Softmax(), 3)])
def test_the_evidence_of_groups_needs_no_jacobian(loss, outputs):
    random = np.random.default_rng(0)
    layers = [(random.normal(size=s) / 2, random.normal(size=s[1])) for s in ((6, 9), (9, 7), (7, outputs))]
    layers[0][0][2] = 0  # an input that the network does not look at
    x, y = random.normal(size=(30, 6)), random.normal(size=(30, outputs))
    y = np.eye(3)[random.integers(3, size=30)] if isinstance(loss, scax.Softmax) else y
    jacobian, group = NetworkJacobian.of(layers, "silu", "linear", 0.3), np.array([0, 0, 1, 2, 2, 3])
    rows = Rows(x, y, random.uniform(0.5, 2, 30), outputs, 1.7)
    post = fit(jacobian, loss, rows, 0.3, "weight-space", least_free=0.1)
    evidence, each, rest = by_evidence(jacobian, loss, rows, 0.3, group, 0.1)
    np.testing.assert_allclose(evidence, post.evidence, rtol=1e-9)
    effective = np.zeros(len(jacobian.w))
    effective[jacobian.support] = 1 - post.prior * post.gaussian.variances()
    of_input, square = effective[9:63].reshape(6, 9).sum(1), np.sum(layers[0][0] ** 2, axis=1)
    fixed = lambda gamma, norm: post.temperature * gamma / (rows.total * norm)
    wanted = [fixed(of_input[group == g].sum(), square[group == g].sum()) for g in (0, 2, 3)]
    np.testing.assert_allclose(each, [wanted[0], 0.3, *wanted[1:]], rtol=1e-8)
    others = jacobian.w @ jacobian.w - square.sum()
    np.testing.assert_allclose(rest, fixed(post.effective_weights - of_input.sum(), others), rtol=1e-8)
