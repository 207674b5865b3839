"""Lines of progress: how often, how much is done, and the time left."""

import io
from types import SimpleNamespace

import pytest

from dphrl.machine.progress import ProgressLines, duration


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Seconds that pass only in a test."""
    clock = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr("dphrl.machine.progress.time", SimpleNamespace(monotonic=lambda: clock.seconds))
    return clock


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """The stream of progress."""
    stream = io.StringIO()
    monkeypatch.setattr("dphrl.machine.progress._stream", stream)
    return stream


def test_a_line_comes_at_the_start_then_every_five_seconds_and_at_the_end(
    clock: SimpleNamespace, out: io.StringIO
) -> None:
    bar = ProgressLines(4, "train", "steps")
    for seconds in (4, 5, 9, 12):
        clock.seconds = seconds
        bar.update(text=f"reward {seconds}")
    bar.close()
    bar.close()
    assert out.getvalue().splitlines() == [
        "train:   0% 0/4 steps, 0.0 s < ?",
        "train:  50% 2/4 steps, 5.0 s < 5.0 s, reward 5",
        "train: 100% 4/4 steps, 12 s < 0.0 s, reward 12",
    ]


def test_a_line_is_printed_before_the_first_item_is_done(clock: SimpleNamespace, out: io.StringIO) -> None:
    bar = ProgressLines(100, "x", "responses")
    for seconds in (1, 7, 8):
        clock.seconds = seconds
        bar.at_work(f"{10 * seconds} tokens")
    bar.close()
    assert out.getvalue().splitlines()[1:] == ["x:   0% 0/100 responses, 7.0 s < ?, 70 tokens"]


def test_the_remaining_time_is_unknown_for_the_first_twentieth(clock: SimpleNamespace, out: io.StringIO) -> None:
    """The start of an engine is not the speed of its answers."""
    bar = ProgressLines(100, "x", "responses")
    for seconds, items in ((60, 1), (120, 49)):
        clock.seconds = seconds
        bar.update(items)
    assert [line.partition(" < ")[2] for line in out.getvalue().splitlines()] == ["?", "?", "2 min"]


@pytest.mark.parametrize("restored", [0, 40])
def test_the_speed_is_that_of_the_items_of_this_process(
    restored: int, clock: SimpleNamespace, out: io.StringIO
) -> None:
    bar = ProgressLines(restored + 40, "x", "steps")
    bar.reached(restored)
    for done in range(1, 11):
        clock.seconds = 10.0 * done
        bar.reached(restored + done)
    assert bar.initial == restored
    assert out.getvalue().splitlines()[-1].endswith("2 min < 5 min")


def test_a_bar_without_a_label_says_nothing(out: io.StringIO) -> None:
    bar = ProgressLines(1, None, "steps")
    bar.update()
    bar.close()
    assert out.getvalue() == ""


def test_durations_are_short() -> None:
    shown = {0.44: "0.4 s", 37.2: "37 s", 720: "12 min", 11_400: "3 h 10 min", 91_000: "25 h", 4_440_000: "1,230 h"}
    assert {seconds: duration(seconds) for seconds in shown} == shown
