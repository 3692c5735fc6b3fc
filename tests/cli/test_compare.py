"""scax compare."""

import json
from pathlib import Path

import numpy as np
import pytest

SHORT = ("--steps", "8", "--repeats", "2", "--methods", "sca,adam", "--hidden", "4", "--batch-size", "8")


def test_table_report_and_where_it_is(scax):
    outcome = scax("compare", *SHORT)
    assert outcome.code == 0, outcome.err
    assert "SCA" in outcome.out
    assert "Adam" in outcome.out
    assert "runs/compare-diabetes-1/report.html" in outcome.out
    results = json.loads(Path("runs/compare-diabetes-1/results.json").read_text())
    assert results["settings"]["steps"] == 8
    assert results["ends"][-1] == 8
    assert len(results["methods"]["sca"]["objective"]) == 2
    assert results["command"].startswith("scax compare diabetes")


@pytest.mark.parametrize(("name", "score"), [("breast-cancer", "AUC"), ("iris", "accuracy")])
def test_classification_for_machines(scax, name, score):
    outcome = scax("compare", name, *SHORT, "--json", "--out", "here")
    found = json.loads(outcome.out)
    assert found["score"] == score
    assert 0 <= found["methods"]["sca"]["score"] <= 1
    assert Path("here/report.html").is_file()


def test_the_command_in_the_report_gives_the_same_numbers(scax):
    import shlex

    scax("compare", "iris", *SHORT, "--seed", "3", "--out", "first")
    first = json.loads(Path("first/results.json").read_text())
    scax(*shlex.split(first["command"])[1:], "--out", "second")
    second = json.loads(Path("second/results.json").read_text())
    for name in ("sca", "adam"):
        for key in ("objective", "score", "curves", "tried"):
            assert first["methods"][name][key] == second["methods"][name][key]


def test_refusals(refused):
    Path("taken").mkdir()
    assert "exists already" in refused("compare", *SHORT, "--out", "taken")
    assert "diabetes" in refused("compare", "diabetis")
    assert "'adam'" in refused("compare", "--methods", "sca,adma")
    assert "--steps" in refused("compare", "--steps", "-3")
    assert "--repeats" in refused("compare", "--repeats", "0")
    assert "--l2" in refused("compare", "--l2", "nan")
    assert "--hidden" in refused("compare", "--hidden", "ten")
    assert "--batch-size" in refused("compare", "--batch-size", "9999")
    assert "--target" in refused("compare", "iris", "--target", "petals")
    assert "No such option" in refused("compare", "--stepz", "3")
    assert "--steps" in refused("compare", "--steps", "many")


def test_methods_get_the_same_batches_and_start():
    """With a learning rate of zero a baseline stays at the start, which is where SCA's curve begins as well."""
    import jax
    import jax.numpy as jnp

    from scax.training.methods import optimizer, tuned

    for name in ("sgd", "adam", "adamw", "lion"):
        method = optimizer(name)
        params = {"w": jnp.ones(3)}
        state = tuned(method.init(params), 0.0, True, 10)
        updates, _ = method.update({"w": jnp.ones(3)}, state, params)
        assert np.all(np.asarray(jax.tree.leaves(updates)[0]) == 0)


@pytest.mark.parametrize("decay", ["constant", "cosine"])
def test_a_rate_in_the_state_is_the_rate_of_the_optimizer(decay):
    import jax.numpy as jnp
    import optax

    from scax.training.methods import optimizer, tuned

    schedule = optax.cosine_decay_schedule(0.03, 10) if decay == "cosine" else 0.03
    for name, plain in {
        "sgd": optax.sgd(schedule),
        "momentum": optax.sgd(schedule, momentum=0.9, nesterov=True),
        "adagrad": optax.adagrad(schedule),
        "rmsprop": optax.rmsprop(schedule, decay=0.9),
        "adam": optax.adam(schedule),
        "adamw": optax.adamw(schedule),
        "nadam": optax.nadam(schedule),
        "lion": optax.lion(schedule),
    }.items():
        ours = optimizer(name)
        w = v = jnp.array([1.0, -2.0])
        s, t = tuned(ours.init(w), 0.03, decay == "cosine", 10), plain.init(v)
        for _ in range(4):
            u, s = ours.update(2 * w, s, w)
            w = optax.apply_updates(w, u)
            u, t = plain.update(2 * v, t, v)
            v = optax.apply_updates(v, u)
        np.testing.assert_allclose(np.asarray(w), np.asarray(v), rtol=2e-6, err_msg=name)
