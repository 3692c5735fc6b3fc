"""The guides describe what is there: every name and file that they mention exists, and their example runs."""

import dataclasses
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scax
from scax.regularizers import Regularizer
from scax.rules import Rule
from scax.solvers import Solver
from scax.training.feed import Batches, Feed
from scax.training.method import Method
from tests.cases import Parts

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "scax"
GUIDES = ["CONTRIBUTING.md", "MATHS.md"]
SHELL = ("cli", "estimators", "report", "reproduce", "runs", "__main__")


@pytest.fixture(scope="module")
def names():
    """Every public name of the core's modules → the objects of that name."""
    found = {}
    for info in pkgutil.walk_packages(scax.__path__, "scax."):
        if info.name.split(".")[1] in SHELL or info.name.startswith("scax.bridges."):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("guide", GUIDES)
def test_files_and_rooms_exist(guide):
    text = (ROOT / guide).read_text(encoding="utf-8")
    places = {place for quoted in re.findall(r"`([^`]+)`", text) for place in quoted.split()}
    for place in sorted(places):
        if re.fullmatch(r"[a-z_/]+(/|\.py)", place):
            assert (SOURCE / place).exists() or (ROOT / place).exists(), place


def test_names_of_the_mathematics_exist(names):
    rows = [line for line in (ROOT / "MATHS.md").read_text(encoding="utf-8").splitlines() if line.count("|") >= 5]
    owner = None
    for row in rows[2:]:
        for quoted in re.findall(r"`([^`]+)`", row.split("|")[3]):
            first, _, attribute = quoted.partition(".")
            owner = first or owner
            assert owner in names, quoted
            if attribute:
                fields = {name for value in names[owner] for name in (*dir(value), *_fields(value))}
                assert attribute in fields, quoted


def _fields(value):
    return getattr(value, "__annotations__", {})


def test_names_of_the_contributors_guide_exist(names):
    """Classes, with an attribute or without, and what is named with `scax.` before it."""
    text = re.sub(r"```.*?```", "", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r"(?<=Walks through the code).*?(?=### The engine)", "", text, flags=re.S)  # tested below
    quoted = [name.partition("(")[0] for name in re.findall(r"`([^`\n]+)`", text)]
    mentioned = {name for name in quoted if re.fullmatch(r"scax\.\w+|[A-Z][a-z]\w*(\.\w+)?", name)}
    assert len(mentioned) > 10
    for name in sorted(mentioned):
        first, _, attribute = name.removeprefix("scax.").partition(".")
        assert hasattr(scax, first) if name.startswith("scax.") else first in names | CASES, name
        if attribute:
            assert any(attribute in (*dir(value), *_fields(value)) for value in names[first]), name


def test_what_a_part_has_to_give_is_in_its_contract():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    text = text.partition("## Adding a part")[2].partition("For each: export")[0]
    contracts = {
        "loss": scax.Loss, "regularizer": Regularizer, "rule": Rule, "feed": (Feed, Batches), "method": Method,
        "solver": Solver,
    }  # fmt: skip
    paragraphs = dict(re.findall(r"^\*\*A (\w+)\*\*:(.*?)(?:\n\n|\Z)", text, re.S | re.M))
    assert paragraphs.keys() == contracts.keys()
    for part, paragraph in paragraphs.items():
        contract = contracts[part] if isinstance(contracts[part], tuple) else (contracts[part],)
        for name in re.findall(r"`([a-z]\w*)(?:\([^`]*\)|)`", paragraph):
            assert any(name in (*dir(each), *_fields(each)) for each in contract), (part, name)


#: What the guide mentions of tests/cases.py.
CASES = {"Parts": [Parts]}


def walks():
    """{name: [(file or folder, the functions and classes named there)]} of CONTRIBUTING's walks."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("Walks through the code")[2]
    found = {}
    for name, way in re.findall(
        r"^- \*\*(.*?)\*\*:(.*?)(?=^- |^###)", text.partition("### The engine")[0] + "###", re.M | re.S
    ):
        stops = re.findall(r"`([a-z_/]+(?:/|\.py))`(?:\s+\(([^)]*)\))?", way)
        found[name] = [(place, re.findall(r"`(\w+(?:\.\w+)?)`", within)) for place, within in stops]
    return found


@pytest.mark.parametrize("walk", walks())
def test_walks_name_what_is_in_their_files(walk):
    assert len(walks()[walk]) >= 4
    for place, functions in walks()[walk]:
        text = (SOURCE / place).read_text(encoding="utf-8") if place.endswith(".py") else ""
        for name in functions:
            for part in name.split("."):
                assert re.search(rf"^\s*(def|class) {part}\b|^{part}\b.*=|\b{part}=", text, re.M), (place, name)


def one_batch():
    sca = scax.SCA(scax.Problem(scax.MLP((2, 3, 1)).apply, scax.Squared(), scax.L2(1e-3)))
    state = sca.init(scax.MLP((2, 3, 1)).init(jax.random.key(0)))
    return lambda: sca.step(state, (np.ones((5, 2), np.float32), np.ones(5, np.float32)))


def softmax_with_a_group_lasso():
    net = scax.MLP((2, 3, 3))
    params = net.init(jax.random.key(0))
    sca = scax.SCA(scax.Problem(net.apply, scax.Softmax(), scax.GroupLasso(1e-3, scax.neuron_groups(params))))
    state = sca.init(params)
    return lambda: sca.step(state, (np.ones((5, 2), np.float32), np.arange(5) % 3))


def a_training():
    net = scax.MLP((2, 3, 1))
    sca, data = (
        scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L1(1e-3))),
        (np.ones((7, 2), "f"), np.ones(7, "f")),
    )
    return lambda: scax.train(sca, net.init(jax.random.key(0)), data, steps=3, batch_size=4)


def a_fit():
    from scax.estimators import SCARegressor

    x = np.random.default_rng(0).normal(size=(50, 2))
    return lambda: SCARegressor((3,), alpha=0.1, max_iter=60, tol=0.1).fit(x, x[:, 0])


RUNS = {
    "One batch": one_batch,
    "Softmax with a group lasso": softmax_with_a_group_lasso,
    "A training": a_training,
    "A fit": a_fit,
}


@pytest.mark.parametrize("walk", RUNS)
def test_walks_are_the_way_the_code_goes(walk):
    """The functions and files of a walk are entered in its order."""
    run, entered = RUNS[walk](), []

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)) and code.co_name != "<module>":
            entered.append((code.co_filename[len(str(SOURCE)) + 1 :], code.co_qualname))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    calls = iter(entered)
    for place, functions in walks()[walk]:
        passed = any(
            file.startswith(place) and (not functions or re.search(rf"(^|\.){functions[0]}(\.|$)", name))
            for file, name in calls
        )
        assert passed, f"{place} {functions[:1]} is not entered after what stands before it"


def run_example(part):
    """The names that the guide's example of a part defines."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"\*\*A {part}\*\*(?:(?!```).)*```python\n(.*?)```", text, re.S)
    scope = {}
    exec(code, scope)
    return scope


def test_the_example_of_the_guide_to_equations_runs(capsys):
    text = (ROOT / "docs/guides/physics.md").read_text(encoding="utf-8")
    try:
        exec(re.findall(r"```python\n(.*?)```", text, re.S)[0], {})
    finally:
        jax.config.update("jax_enable_x64", False)  # which the example switches on, for good
    assert float(capsys.readouterr().out) < 1e-4


def test_the_example_of_a_loss_runs(x64):
    """The step with it is taken, and what it says of itself is what JAX derives from its value."""
    scope = run_example("loss")
    assert scope["info"].accepted
    loss, z, y = scope["SmoothHuber"](), jnp.asarray([[3.0], [-0.2], [1e4]]), jnp.zeros((3, 1))
    g = jax.grad(lambda z: jnp.sum(loss.value(z, y)))(z)
    H = jnp.diag(jax.hessian(lambda z: jnp.sum(loss.value(z[:, None], y)))(z[:, 0]))
    np.testing.assert_allclose(loss.gradient(z, y), g, rtol=1e-9)
    np.testing.assert_allclose(loss.factor(z, y)[:, 0] ** 2, H, rtol=1e-6)
    np.testing.assert_allclose(loss.factor(z, y) * loss.whitened(z, y), g, rtol=1e-9)


def test_the_example_of_a_solver_runs():
    """It finds the step that the library's own solver finds, and refuses what it cannot solve in a sentence."""
    scope = run_example("solver")
    assert scope["info"].accepted
    sca, start = scope["sca"], scope["net"].init(jax.random.key(0))
    batch = (np.eye(2, dtype=np.float32), np.ones(2, np.float32))
    judge = dataclasses.replace(sca, solver=scax.solvers.Semismooth(tolerance=1e-6))
    expected = judge.step(judge.init(start), batch)[0].w
    np.testing.assert_allclose(scope["state"].w, expected, atol=1e-4)
    assert jnp.linalg.norm(expected - sca.init(start).w) > 1e-2
    with pytest.raises(ValueError, match=r"proximal-gradient needs .* Huber\(.*use solver='fista'"):
        dataclasses.replace(sca, problem=scax.Problem(scope["net"].apply, scax.Huber(1.0), scax.L1(1e-2)))


def test_the_example_of_a_rule_runs():
    info = run_example("rule")["info"]
    assert info.accepted
    assert info.damping > 0


def test_the_example_of_a_feed_runs():
    scope = run_example("feed")
    history = scope["result"].history
    assert history["step"].tolist() == [20, 40]
    first = scope["Points"](20).sample(65_536)
    start = scope["method"].problem.objective(scope["net"].init(jax.random.key(0)), first.x, first.y)
    assert history["objective"][-1] < 0.5 * start


def test_no_guide_begins_with_a_formula():
    """Pages of the manual, but for those on how it works."""
    for page in (ROOT / "docs").rglob("*.md"):
        if "how-it-works" in page.parts:
            continue
        first = page.read_text(encoding="utf-8").split("\n\n")[1]
        assert not first.startswith("    "), page
        assert not re.search("[‖Σ∂∇δ]|\\bargmin", first), page
