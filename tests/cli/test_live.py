"""What is seen while a network trains: the live view, and TensorBoard's event files."""

import io
import json
import struct
import sys
from pathlib import Path

import pytest
from rich.console import Console

from scax.cli.live import Display, sparkline

from .tables import regression

SMALL = ("--steps", "30", "--batch-size", "8", "--hidden", "4")


def test_sparkline():
    assert sparkline([1, 10, 100]) == "▁▅█"  # logarithmic
    assert sparkline([-1, 0, 1]) == "▁▅█"  # not all positive: linear
    assert sparkline([3, 3]) == "▁▁"
    assert sparkline([1, None, float("nan"), 2]) == "▁··█"
    assert sparkline([None]) == "·"
    falling = sparkline(range(200, 0, -1), width=20)
    assert len(falling) == 20
    assert falling[0] == "█"
    assert falling[-1] == "▁"
    assert list(falling) == sorted(falling, reverse=True)


def shown(records, terminal=True):
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=90, legacy_windows=False)
    with Display(console, terminal, 30, 0, "RMSE") as display:
        for record in records:
            display.on_record(record)
            display.on_step(record["step"])
    return text.getvalue()


def test_the_live_view_has_a_table_a_sparkline_and_a_bar():
    records = [
        {"step": i, "seconds": i / 10, "objective": 2.0**-i, "accepted": 0.75, "damping": 0.1, "RMSE": 3.5 / i}
        for i in range(1, 31)
    ]
    told = shown([*records[:-1], {**records[-1], "objective": None}])
    assert "objective" in told
    assert "RMSE" in told
    assert "75%" in told
    assert "█▇" in told
    assert "not finite" in told
    assert "30/30" in told
    assert "held-out loss" not in told  # nothing was held out
    assert shown(records, terminal=False) == ""


def events(folder):
    """(step, tag, value) of every event file of a folder, read as TensorBoard reads them: framed protocol buffers."""
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(Path(folder).iterdir()):
        content, place = path.read_bytes(), 0
        while place < len(content):
            (length,) = struct.unpack_from("<Q", content, place)
            event = Event.FromString(content[place + 12 : place + 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            place += 16 + length
    return found


def test_tensorboard_sees_what_the_run_folder_holds(scax):
    pytest.importorskip("tensorboardX", reason="needs the extra: pip install 'scax[tensorboard]'")
    regression(Path("t.csv"))
    outcome = scax("train", "t.csv", "--target", "price", *SMALL, "--out", "run", "--tensorboard", "events")
    assert outcome.code == 0, outcome.err
    records = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    found = {(step, tag): value for step, tag, value in events("events")}
    for record in records:
        for key, tag in (("objective", "training/objective"), ("damping", "method/damping"), ("RMSE", "held_out/RMSE")):
            assert found[record["step"], tag] == pytest.approx(record[key], rel=1e-6)


def test_a_resumed_run_goes_on_in_the_same_event_files(scax):
    pytest.importorskip("tensorboardX", reason="needs the extra: pip install 'scax[tensorboard]'")
    from scax.runs import session as sessions
    from scax.runs.config import load as load_config
    from scax.runs.reading import survey

    regression(Path("t.csv"))
    assert scax("train", "t.csv", "--target", "price", *SMALL, "--out", "run").code == 0
    config = load_config(Path("run/config.toml"))
    session = sessions.start(Path("cut"), config, *survey(config), "")
    assert not session.go(lambda r: None, lambda s: None, lambda: session.step >= 7, 0.0)
    reached = session.step
    outcome = scax("resume", "cut", "--tensorboard", "events")
    assert outcome.code == 0, outcome.err
    steps = {step for step, tag, _ in events("events") if tag == "training/objective"}
    known = [json.loads(line)["step"] for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert steps == {step for step in known if step > reached} != set()


def test_without_tensorboard_one_line_says_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    regression(Path("t.csv"))
    told = refused("train", "t.csv", "--target", "price", "--tensorboard", "events")
    assert told == "scax: --tensorboard needs tensorboardX, which is not installed: pip install 'scax[tensorboard]'\n"


def test_lines_come_now_and_then(capsys, monkeypatch):
    from scax.cli.live import Lines

    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines = Lines(5.0)
    for now[0] in (1.0, 6.0, 7.0, 12.0):
        lines(f"step {now[0]:g}")
    assert capsys.readouterr().err == "step 6\nstep 12\n"
