"""Ctrl-C: noted at once, obeyed at a good moment, never lost."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from scax.cli import interrupts

from .tables import regression


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def test_patience(monkeypatch):
    before, left = signal.getsignal(signal.SIGINT), []
    monkeypatch.setattr(interrupts, "_leave", left.append)
    with interrupts.listen():
        with interrupts.patient("last words"):
            interrupt()
            assert interrupts.asked()  # and nothing was raised
            assert left == []
            interrupt()
            assert left == ["last words"]
        with pytest.raises(KeyboardInterrupt), interrupts.patient():
            pytest.fail("begun although a stop was asked for")
    assert signal.getsignal(signal.SIGINT) is before
    assert not interrupts.asked()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_is_noted(number):
    with interrupts.listen(), interrupts.patient():
        assert not interrupts.asked()
        interrupt(number)
        assert interrupts.asked()


def test_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.listen(), interrupts.patient():
            interrupt(signal.SIGHUP)
            assert not interrupts.asked()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_a_callback_swallows_is_obeyed_later():
    def swallow():
        with interrupts.anywhere(), contextlib.suppress(KeyboardInterrupt):
            interrupt()

    with interrupts.listen(), pytest.raises(KeyboardInterrupt):
        swallow()
    with interrupts.listen():
        interrupts.check()  # the next command starts afresh


@pytest.mark.parametrize("moment", ["survey", "start", "resume"])
def test_a_stop_before_the_first_step(scax, monkeypatch, moment):
    """Before there is a folder nothing is left of it; then the command that goes on is named."""
    from scax.cli import train_run

    regression(Path("t.csv"))
    at = train_run if moment == "survey" else train_run.sessions
    really, way = getattr(at, moment), ("train", "t.csv", "--target", "price", "--steps", "5", "--out", "run")
    if moment == "resume":
        monkeypatch.setattr(train_run.sessions.Session, "go", lambda *_: interrupt() or False)
        assert "Go on: scax resume run" in scax(*way).err
        way = ("resume", "run")

    def stopped(*given):
        found = really(*given)
        with contextlib.suppress(KeyboardInterrupt):
            interrupt()
        return found

    monkeypatch.setattr(at, moment, stopped)
    outcome = scax(*way)
    assert outcome.code == 130
    if moment == "survey":
        assert outcome.err == "scax: stopped.\n"
        assert [p.name for p in Path().iterdir()] == ["t.csv"]
    else:
        assert outcome.err == "scax: stopped. Go on: scax resume run\n"


def test_a_comparison_stops_between_two_runs(scax, monkeypatch):
    from scax.cli import compare_run

    ticks = []

    def compare(x, y, task, settings, tick):
        for done in range(5):
            if done == 2:
                interrupt()
            ticks.append(done)
            tick("sca", done, 5)

    monkeypatch.setattr(compare_run, "compare", compare)
    outcome = scax("compare", "--methods", "sca", "--out", "run")
    assert (outcome.code, outcome.err) == (130, "scax: stopped.\n")
    assert ticks == [0, 1, 2]
    assert not Path("run").exists()


def test_no_command_shows_the_help(scax):
    outcome = scax()
    assert outcome.code == 2
    assert outcome.out.count("\n") > 10
    assert "\n  train " in outcome.out
