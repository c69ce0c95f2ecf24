"""Hot loops are let go of, and a full log ends the watch: by events made by hand, so that no clock decides."""

from types import CodeType

import pytest

from perfmagic.capture.watch.events import CLOSE_NS, LINE, SAMPLE, START, Events, HotLoops


def code_of(name: str) -> CodeType:
    return compile("pass", f"<{name}>", "exec")


HOT, COLD = code_of("hot"), code_of("cold")


class Watching:
    """Records the calls that it receives."""

    def __init__(self) -> None:
        self.released: list[CodeType] = []
        self.stopped = 0

    def stop_tracking(self, code: CodeType) -> None:
        self.released.append(code)

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def watching() -> Watching:
    return Watching()


def lines(events: Events, code: CodeType, n: int, apart_ns: int, begin_ns: int = 0) -> None:
    events.of_main.extend((begin_ns + i * apart_ns, LINE, code, 1) for i in range(n))


def test_lines_that_follow_each_other_closely_are_no_longer_tracked(watching: Watching) -> None:
    events = Events()
    hot = HotLoops(events, watching, least_events=1000)
    lines(events, HOT, 999, CLOSE_NS // 2)
    hot.look()
    assert watching.released == []
    lines(events, HOT, 500, CLOSE_NS // 2, 999 * CLOSE_NS // 2)
    hot.look()
    assert watching.released == hot.untracked == [HOT]
    lines(events, HOT, 5000, CLOSE_NS // 2, 10**9)
    hot.look()
    assert watching.released == [HOT]


def test_lines_as_far_apart_as_calls_into_torch_are_kept(watching: Watching) -> None:
    events = Events()
    hot = HotLoops(events, watching, least_events=1000)
    for i in range(5):
        lines(events, HOT, 2000, 2 * CLOSE_NS, i * 10**9)
        hot.look()
    assert watching.released == []


def test_who_has_few_of_the_lines_is_kept(watching: Watching) -> None:
    events = Events()
    hot = HotLoops(events, watching, least_events=1000)
    lines(events, HOT, SAMPLE, 100)
    lines(events, COLD, SAMPLE // 20, 100, SAMPLE * 100)
    hot.look()
    assert watching.released == [HOT]


def test_calls_are_no_lines(watching: Watching) -> None:
    events = Events()
    hot = HotLoops(events, watching, least_events=1000)
    events.of_main.extend((i * 100, START, HOT, 0) for i in range(5000))
    hot.look()
    assert watching.released == []


def test_a_full_log_ends_the_watch_once(watching: Watching) -> None:
    events = Events()
    hot = HotLoops(events, watching, most_events=2000)
    lines(events, COLD, 1999, 2 * CLOSE_NS)
    hot.look()
    assert (hot.full_ns, watching.stopped) == (None, 0)
    lines(events, COLD, 1, 0, 10**9)
    hot.look()
    hot.look()
    assert hot.full_ns is not None
    assert watching.stopped == 1
