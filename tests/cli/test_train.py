"""scax train, resume, predict, report: the run folder."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars
import pytest

from scax import MLP
from scax import compact as scax_compact
from scax.storage import load, read
from scax.training.strength import count_used

from .tables import lines, regression

SMALL = ("--steps", "30", "--batch-size", "8", "--hidden", "4")


@pytest.fixture
def run(scax):
    """A finished run."""
    regression(Path("t.csv"))
    outcome = scax("train", "t.csv", "--target", "price", *SMALL, "--out", "run")
    assert outcome.code == 0, outcome.err
    return outcome


def test_run_folder(run, scax):
    assert "color" in run.out
    assert "category (2)" in run.out
    assert "scax predict run" in run.out
    names = {p.name for p in Path("run").iterdir()}
    assert names >= {
        "config.toml", "environment.json", "schema.json", "metrics.jsonl", "results.json",
        "checkpoint.safetensors", "model.safetensors",
    }  # fmt: skip
    records = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert records[0]["step"] == 1
    assert records[-1]["step"] == 30
    assert records[-1]["objective"] < records[0]["objective"]
    assert "nothing left to do" in scax("resume", "run").out

    # the report, from the files alone
    Path("t.csv").unlink()
    assert scax("report", "run").code == 0
    page = Path("run/report.html").read_text()
    assert "Predicted against true" in page
    assert page.count("<figure") == 7  # both losses share one, and none is drawn against seconds as well
    assert "Errors against predictions" in page
    assert "Coverage of intervals" in page
    assert "linear model" in page
    assert "Weights in use" not in page


def test_predictions(run, scax):
    model = load("run/model.safetensors")
    scax("predict", "run", "t.csv", "-o", "p.csv")
    found = polars.read_csv("p.csv")["price"].to_numpy()
    np.testing.assert_allclose(found, model.predict("t.csv"), rtol=1e-6)

    # in the terminal, as Parquet, compressed
    told = scax("predict", "run", "t.csv").out.splitlines()
    assert told[0] == "price"
    assert len(told) == 61
    scax("predict", "run", "t.csv", "-o", "p.parquet")
    np.testing.assert_array_equal(polars.read_parquet("p.parquet")["price"].to_numpy(), found)
    scax("predict", "run", "t.csv", "-o", "p.csv.gz")
    np.testing.assert_array_equal(polars.read_csv("p.csv.gz")["price"].to_numpy(), found)

    # reordered columns are fine, extra ones are mentioned, the target need not be there
    table = polars.read_csv("t.csv")
    table.select("color", "width", "height").with_columns(extra=1).write_csv("other.csv")
    outcome = scax("predict", "run", "other.csv", "-o", "q.csv")
    assert outcome.code == 0
    assert "'extra'" in outcome.err
    np.testing.assert_array_equal(polars.read_csv("q.csv")["price"].to_numpy(), found)


def test_predictions_with_bounds(run, scax, refused):
    scax("predict", "run", "t.csv", "--interval", "0.9", "-o", "p.csv")
    table = polars.read_csv("p.csv")
    assert table.columns == ["price", "lower", "upper"]
    assert (table["lower"] < table["price"]).all()
    assert (table["price"] < table["upper"]).all()
    assert "between 0 and 1" in refused("predict", "run", "t.csv", "--interval", "95")
    assert "--interval 0.95" in refused("predict", "run", "t.csv", "--calibrated")


def test_predictions_keep_columns_as_they_stand(run, scax, refused):
    lines = Path("t.csv").read_text().splitlines()
    names = [f"{i:04d}" for i in range(len(lines) - 1)]
    marked = [f"{name},{line}" for name, line in zip(["name", *names], lines, strict=True)]
    Path("marked.csv").write_text("\n".join(marked) + "\n")
    scax("predict", "run", "t.csv", "-o", "p.csv")
    scax("predict", "run", "marked.csv", "--keep", "name", "-o", "kept.csv")
    plain, kept = (Path(name).read_text().splitlines() for name in ("p.csv", "kept.csv"))
    assert kept == [f"{name},{line}" for name, line in zip(["name", *names], plain, strict=True)]
    assert "Did you mean 'name'?" in refused("predict", "run", "marked.csv", "--keep", "nam")


def test_evaluate(run, scax, refused):
    found = json.loads(scax("evaluate", "run", "t.csv", "--json").out)
    table = polars.read_csv("t.csv")
    truth = table[found["target"]].to_numpy()
    error = load("run/model.safetensors").predict("t.csv") - truth
    np.testing.assert_allclose(found["RMSE"], np.sqrt(np.mean(error**2)), rtol=1e-4)
    np.testing.assert_allclose(found["RMSE of the mean"], truth.std(), rtol=1e-4)
    assert found["rows"] == len(truth)
    told = scax("evaluate", "run", "t.csv").out
    assert "R²" in told
    assert max(map(len, told.splitlines())) <= 80
    trained = "These rows are those of the training: on others the scores may be worse."
    assert trained in scax("evaluate", "run", "t.csv").err
    assert trained not in scax("evaluate", "run/model.safetensors", "t.csv").err
    table.tail(20).write_csv("new.csv")
    assert trained not in scax("evaluate", "run", "new.csv").err
    Path("run/checkpoint.safetensors").write_bytes(b"cut short")
    assert trained not in scax("evaluate", "run", "t.csv").err
    far = polars.col("price") * 1e300
    table.with_columns(far).write_csv("far.csv")
    assert "too far away for float32" in refused("evaluate", "run", "far.csv")
    table.drop(found["target"]).write_csv("blind.csv")
    assert "the target" in refused("evaluate", "run", "blind.csv")


def test_the_score_is_of_rows_that_nothing_was_chosen_by(run, scax, refused):
    """They are a tenth of the rows; what becomes of their targets changes nothing but the score."""
    found = json.loads(Path("run/results.json").read_text())
    assert found["rows"] == {"train": 42, "validation": 12, "test": 6}
    assert len(found["truth"]) == 6
    error = np.array(found["outputs"])[:, 0] - np.array(found["truth"])
    np.testing.assert_allclose(found["test"]["RMSE"], np.sqrt(np.mean(error**2)), rtol=1e-4)
    assert "On 6 test rows: R²" in run.out

    table = polars.read_csv("t.csv")
    tested = table["price"].is_in(found["truth"])
    assert tested.sum() == 6
    table.with_columns(price=polars.when(tested).then(polars.col("price") + 1).otherwise("price")).write_csv("t.csv")
    scax("train", "t.csv", "--target", "price", *SMALL, "--out", "other")
    weights, others = (read(f"{name}/model.safetensors").arrays for name in ("run", "other"))
    assert all(np.array_equal(weights[k], others[k]) for k in weights)
    assert json.loads(Path("other/results.json").read_text())["test"] != found["test"]

    scax("train", "t.csv", "--target", "price", *SMALL, "--out", "without", "--test", "0")
    assert "test" not in json.loads(Path("without/results.json").read_text())
    assert "at most 0.9" in refused("train", "t.csv", "--target", "price", "--validation", "0.5", "--test", "0.5")


def test_columns_that_matter(run, scax, refused):
    """price is width − 2 height and noise."""
    found = json.loads(Path("run/results.json").read_text())["importance"]
    assert [each["column"] for each in found[:2]] == ["height", "width"]
    assert "matter most: height, width" in run.out
    told = json.loads(scax("evaluate", "run", "t.csv", "--importance", "--json").out)["importance"]
    assert [each["column"] for each in told[:2]] == ["height", "width"]
    assert told[0]["rise"] > told[1]["rise"] > 3 * abs(told[2]["rise"])
    shown = scax("evaluate", "run", "t.csv", "--importance").out
    assert "RMSE rises by" in shown
    polars.read_csv("t.csv").head(1).write_csv("one.csv")
    assert "at least two rows" in refused("evaluate", "run", "one.csv", "--importance")
    scax("report", "run")
    assert "Columns that matter" in Path("run/report.html").read_text()


def test_a_run_goes_on_beyond_its_end(run, scax, refused):
    scax("train", "t.csv", "--target", "price", *SMALL, "--steps", "50", "--out", "long")
    assert "is at step 30" in refused("resume", "run", "--steps", "30")
    Path("run/folds.json").write_text("{}")  # of networks of 30 steps
    outcome = scax("resume", "run", "--steps", "50")
    assert outcome.code == 0, outcome.err
    assert "at step 30 of 50" in outcome.out
    assert not Path("run/folds.json").exists()
    states = [read(f"{name}/checkpoint.safetensors").arrays for name in ("run", "long")]
    for key in ("state.state.w", "state.state.carried", "state.state.rules.clock.time"):
        assert np.array_equal(states[0][key], states[1][key])
    assert json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])["step"] == 50
    assert "nothing left to do" in scax("resume", "run").out


def test_predictions_refused(run, refused):
    polars.read_csv("t.csv").drop("width").write_csv("less.csv")
    assert "'width'" in refused("predict", "run", "less.csv")
    assert ".parquet" in refused("predict", "run", "t.csv", "-o", "p.xlsx")
    assert "nowhere" in refused("predict", "run", "t.csv", "-o", "nowhere/p.csv")
    whole = Path("run/model.safetensors").read_bytes()
    newer = whole.replace(b'\\"version\\": 1', b'\\"version\\": 9').replace(b'"version":"1"', b'"version":"9"')
    for content in (whole[:-3], whole[:40], b"", whole[:200] + b"!" + whole[201:], newer if newer != whole else b"x"):
        Path("run/model.safetensors").write_bytes(content)
        assert "model.safetensors" in refused("predict", "run", "t.csv")


def test_classes_and_their_probabilities(scax):
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    labels = np.where(x > 0.4, "high", np.where(x < -0.4, "low", "middle"))
    polars.DataFrame({"x": x, "level": labels}).write_parquet("t.parquet")
    outcome = scax("train", "t.parquet", "--target", "level", *SMALL, "--out", "run", "--json")
    assert outcome.code == 0, outcome.err
    told = [json.loads(line) for line in outcome.out.splitlines()]
    assert told[0]["step"] == 1
    assert told[-1]["complete"] is True
    scax("predict", "run", "t.parquet", "-o", "p.csv")
    found = polars.read_csv("p.csv")
    assert found.columns == ["level", "probability high", "probability low", "probability middle"]
    np.testing.assert_allclose(found.select(found.columns[1:]).sum_horizontal().to_numpy(), 1, rtol=1e-5)
    assert set(found["level"]) <= {"high", "low", "middle"}


def test_config_is_equal_to_flags(run, scax):
    lines(Path("c.toml"), 'table = "t.csv"', 'target = "price"', "steps = 30", "batch-size = 8", "hidden = [4]")
    scax("train", "--config", "c.toml", "--out", "again")
    scax("train", "--config", "run/config.toml", "--out", "and-again")
    weights = [read(f"{name}/model.safetensors").arrays for name in ("run", "again", "and-again")]
    for other in weights[1:]:
        assert all(np.array_equal(weights[0][k], other[k]) for k in weights[0])
    # a flag wins over the file, and decides the result
    scax("train", "--config", "c.toml", "--out", "other", "--seed", "5")
    other = read("other/model.safetensors").arrays
    assert not all(np.array_equal(weights[0][k], other[k]) for k in other)


def test_a_setting_of_another_type_is_refused(run, refused):
    lines(Path("c.toml"), 'table = "t.csv"', 'target = "price"', "l2 = true")
    assert "c.toml: l2 is True, and must be a text, a number" in refused("train", "--config", "c.toml")
    lines(Path("c.toml"), 'table = "t.csv"', 'target = "price"', "header = 1")
    assert "must be true or false" in refused("train", "--config", "c.toml")


def test_stop_and_resume_is_to_the_bit(run, scax):
    """Ctrl-C after a while, twice; a checkpoint at every moment."""
    from scax.runs import session as sessions
    from scax.runs.config import load as load_config
    from scax.runs.reading import survey

    config = load_config(Path("run/config.toml"))
    table, found = survey(config)
    session = sessions.start(Path("wild"), config, table, found, "")
    for stop_at in (1, 7, 16):
        done = session.go(lambda r: None, lambda s: None, lambda at=stop_at, s=session: s.step >= at, 0.0)
        assert not done
        session = sessions.resume(Path("wild"))
        assert session.step >= stop_at
    outcome = scax("resume", "wild", "--save-every", "0")
    assert outcome.code == 0, outcome.err
    from benchmarks.kill_test import compare

    compare(Path("run"), Path("wild"))


def test_resume_refuses_another_table(run, scax, refused):
    Path("run/results.json").unlink()
    text = Path("t.csv").read_text()
    Path("t.csv").write_text(text.replace("red", "green", 1))
    assert "changed" in refused("resume", "run")
    Path("t.csv").unlink()
    assert "t.csv" in refused("resume", "run")
    Path("t.csv").write_text(text)
    Path("run/checkpoint.safetensors").write_bytes(Path("run/checkpoint.safetensors").read_bytes()[:-1])
    assert "checkpoint" in refused("resume", "run")


def test_a_run_in_use_is_left_alone(run, refused):
    from scax.storage.run_folder import locked

    Path("run/results.json").unlink()
    with locked(Path("run")):
        assert "in use" in refused("resume", "run")


def test_interrupt_saves_and_says_how_to_resume(tmp_path):
    """A real process, a real Ctrl-C."""
    regression(tmp_path / "t.csv")
    command = [
        sys.executable,
        "-m",
        "scax",
        "train",
        "t.csv",
        "--target",
        "price",
        "--steps",
        "100000000",
        "--out",
        "run",
    ]
    process = subprocess.Popen(
        [*command, "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["step"] == 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "scax resume run" in err
    # a slow machine shows progress
    assert len([line for line in err.strip().splitlines() if "so far" not in line]) == 1
    assert read(tmp_path / "run/checkpoint.safetensors").description["info"]["step"] >= 1


def test_a_terminal_that_is_closed_saves(tmp_path):
    """The progress bar cannot be drawn any more, and that must not keep the run from saving."""
    import fcntl
    import pty
    import termios

    regression(tmp_path / "t.csv")
    master, slave = pty.openpty()
    words = ("train", "t.csv", "--target", "price", "--steps", "100000000", "--save-every", "100000", "--out", "run")
    process = subprocess.Popen(
        [sys.executable, "-m", "scax", *words],
        cwd=tmp_path,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=_environment(),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    deadline = time.monotonic() + 240
    while not (tmp_path / "run/metrics.jsonl").exists() or not (tmp_path / "run/metrics.jsonl").stat().st_size:
        assert process.poll() is None, "ended before its first record"
        assert time.monotonic() < deadline
        if select.select([master], [], [], 0.05)[0]:  # or it would wait for someone to read what it says
            os.read(master, 1 << 16)
    os.close(master)
    assert process.wait(timeout=120) == 130
    assert read(tmp_path / "run/checkpoint.safetensors").description["info"]["step"] >= 1


def test_killed_and_resumed(tmp_path):
    """The short version of benchmarks/kill_test.py."""
    from benchmarks import kill_test

    os.environ |= {"PYTHONPATH": _environment()["PYTHONPATH"]}
    assert kill_test.run(kills=3, steps=3000, seed=1, folder=tmp_path, say=lambda text: None, starts=1) == 3


def test_help_is_quick_and_light():
    code = (
        "import sys; sys.argv = ['scax', '--help']\n"
        "from scax.cli.main import app\n"
        "try: app()\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'numpy', 'sklearn', 'matplotlib', 'polars'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=_environment())
    for command in ("train", "resume", "predict", "compare", "report"):
        assert command in told.stdout


def _environment() -> dict[str, str]:
    import scax

    return {**os.environ, "PYTHONPATH": str(Path(scax.__file__).parents[1])}


def test_a_group_penalty_ends_with_inputs_gone(scax):
    regression(Path("t.csv"))
    outcome = scax("train", "t.csv", "--target", "price", *SMALL, "--l2", "0", "--group", "0.1", "--out", "run")
    assert outcome.code == 0, outcome.err
    results = json.loads(Path("run/results.json").read_text())
    model = load("run/model.safetensors")
    left = sum(np.count_nonzero(leaf) for layer in model.layers for leaf in layer)
    assert 0 < left < results["weights"]
    assert len(results["sparsity"]["inputs"]) < results["network"][0]
    assert "weights are in use" in outcome.out


def test_a_strength_is_found(scax):
    """Chosen on training rows, shown, kept in the folder; and found again by a run that stopped before it was."""
    from scax.runs import session as sessions
    from scax.runs.config import load as load_config
    from scax.runs.reading import survey

    regression(Path("t.csv"))
    given = ["train", "t.csv", "--target", "price", *SMALL, "--penalty", "group", "--strength", "auto"]
    outcome = scax(*given, "--out", "run")
    assert outcome.code == 0, outcome.err
    assert "Chosen: " in outcome.out
    path = json.loads(Path("run/path.json").read_text())
    results = json.loads(Path("run/results.json").read_text())
    assert results["path"] == path
    assert path["best"] <= path["chosen"] < len(path["strengths"])
    assert path["loss"][path["best"]] == min(path["loss"])
    assert len(path["names"]) == results["network"][0]
    assert results["sparsity"]["weights"] < results["weights"]
    # all counts are of what is in use: those of the path, of the end, and of the model without the rest
    model = load("run/model.safetensors")
    small = scax_compact(MLP(model.widths, model.activation), model.params)
    assert results["sparsity"]["weights"] == results["final"]["weights_kept"] == small.after.weights
    assert f"{small.after.weights} of {results['weights']} weights are in use" in outcome.out
    assert f"{path['weights'][0]} weights in use" in outcome.out
    for neurons, inputs, weights in zip(path["neurons"], path["inputs"], path["weights"], strict=True):
        assert (neurons == 0) == (len(inputs) == 0) == (weights <= 1)
    assert scax("report", "run").code == 0
    report = Path("run/report.html").read_text()
    assert "Loss against neurons kept" in report
    assert "Inputs that stay" in report

    config = load_config(Path("run/config.toml"))
    assert (config.penalty, config.strength, config.l2) == ("group", "auto", 0.0)
    session = sessions.start(Path("stopped"), config, *survey(config), "scax train")
    assert session.undecided
    assert not session.choose(lambda record: None, lambda: True)
    assert not Path("stopped/path.json").exists()
    assert scax("resume", "stopped").code == 0
    assert Path("stopped/path.json").read_bytes() == Path("run/path.json").read_bytes()
    assert Path("stopped/model.safetensors").read_bytes() == Path("run/model.safetensors").read_bytes()
    # or right after it was: training goes on from the network on the path
    session = sessions.start(Path("between"), config, *survey(config), "scax train")
    assert session.choose(lambda record: None, lambda: False)
    begun = count_used(session.net, session.carry.state.params)
    assert begun["weights"] == path["weights"][path["chosen"]] < results["weights"]
    for damaged in ([], path | {"chosen": 99}):
        written = Path("between/path.json").read_text()
        Path("between/path.json").write_text(json.dumps(damaged))
        outcome = scax("resume", "between")
        assert (outcome.code, "path.json is damaged" in outcome.err) == (2, True)
        Path("between/path.json").write_text(written)
    assert scax("resume", "between").code == 0
    assert Path("between/model.safetensors").read_bytes() == Path("run/model.safetensors").read_bytes()


def test_a_strength_given_as_a_number_is_that_of_its_penalty(scax, refused):
    from scax.cli.train import _strengths

    others = {"l1": 0.0, "log": 0.0, "group": 0.0}
    assert _strengths(others, None, "l1", "0.5") == others | {"l2": 0.0, "l1": 0.5}
    assert _strengths(others, None, "", "") == others | {"l2": 0.01}
    regression(Path("t.csv"))
    start = ("train", "t.csv", "--target", "price")
    assert "choose --penalty l1, log, group" in refused(*start, "--penalty", "l2", "--strength", "auto")
    assert "choose l2, l1, log, group" in refused(*start, "--penalty", "l3", "--strength", "auto")
    assert "add --penalty and one of l2, l1, log, group" in refused(*start, "--strength", "auto")
    assert "--penalty log needs --strength" in refused(*start, "--penalty", "log")
    assert "say it twice" in refused(*start, "--penalty", "log", "--strength", "0.1", "--log", "0.2")
    assert "give a number, or auto" in refused(*start, "--penalty", "l1", "--strength", "much")
    both = refused(*start, "--penalty", "l1", "--strength", "auto", "--l1", "1")
    assert "leave one of them out" in both
    outcome = scax(*start, *SMALL, "--penalty", "log", "--strength", "0.1", "--l1", "1e-4", "--out", "log")
    assert outcome.code == 0, outcome.err
    sparsity = json.loads(Path("log/results.json").read_text())["sparsity"]
    assert 0 < sparsity["weights"] < 50
    assert scax("report", "log").code == 0
    assert "L1(0.0001) + Log(0.1)" in Path("log/report.html").read_text()


def test_rows_held_out_of_one_class(scax):
    """No AUC then: said so, by the run, by its report, and by a comparison, in which nothing diverged."""
    rng = np.random.default_rng(0)
    rows = [f"{a:.4f},{'yes' if i in (0, 1, 2) else 'no'}" for i, a in enumerate(rng.normal(size=80))]
    for seed in range(99):  # one in which all three are trained on
        from scax.tables import Split

        if not Split(0.3, seed).held_out(0, 80)[:3].any():
            break
    lines(Path("t.csv"), "a,churn", *rows)
    start = ("train", "t.csv", "--target", "churn", *SMALL, "--seed", str(seed))
    outcome = scax(*start, "--penalty", "l1", "--strength", "0.001", "--out", "run")
    assert outcome.code == 0, outcome.err
    assert "no AUC, for the validation rows are of one class" in outcome.out
    assert json.loads(Path("run/results.json").read_text())["final"]["AUC"] is None
    assert load("run/model.safetensors").info["score"] == {"AUC": None}
    assert scax("report", "run").code == 0
    assert "there is no AUC" in Path("run/report.html").read_text()

    short = ("--steps", "4", "--repeats", "4", "--methods", "sca", "--hidden", "2", "--batch-size", "8")
    outcome = scax("compare", "t.csv", "--target", "churn", *short, "--out", "beside")
    assert outcome.code == 0, outcome.err
    assert "diverged" not in outcome.out
    assert "rows held out are of one class" in outcome.out
    json.loads(Path("beside/results.json").read_text(), parse_constant=pytest.fail)
