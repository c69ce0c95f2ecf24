"""Several bodies measured in turns: A B B A, so that what drifts during the run moves all of them alike."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence

from perfmagic.capture import quiet
from perfmagic.capture.stopwatch import Steps
from perfmagic.capture.timers import BenchSpec, Engine
from perfmagic.numerics.ratio import judged, ratio_interval
from perfmagic.trace.samples import BenchRecord

MOST_S = 60.0  # of all together: a comparison that takes longer was not meant
DECIDE_S = 10.0  # so long it goes on where the verdict is unclear
MORE_FRAC = 0.25  # so many samples more before it is looked at again: each look is a chance of a false alarm


def measure_in_turns(
    bodies: Sequence[Callable[[], object]],
    specs: Sequence[BenchSpec],
    *,
    band: float,
    decide_s: float = DECIDE_S,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    kept: Callable[[list[BenchRecord]], None] | None = None,
) -> list[BenchRecord]:
    """The records of some bodies whose samples were taken in turns, as many of each.

    Each is made ready by itself (first calls, warm-up); then rounds go A B … B A until every stopping rule has enough
    and each is faster, slower or the same as the first (changes within the band do not count), or decide_s are over.
    An exception of a body ends all of them, an interrupt too: kept is then given what was measured before, and the
    exception goes on.
    """
    engines = [Engine(spec, synced=False, clock_ns=clock_ns) for spec in specs]
    try:
        _take_turns(engines, bodies, band, decide_s, clock_ns)
    except BaseException as error:
        for engine in engines:
            engine.failed(error)
        if kept is not None:
            kept([engine.record() for engine in engines])
        raise
    return [engine.record() for engine in engines]


def _take_turns(
    engines: Sequence[Engine],
    bodies: Sequence[Callable[[], object]],
    band: float,
    decide_s: float,
    clock_ns: Callable[[], int],
) -> None:
    pairs = list(zip(engines, bodies, strict=True))
    round_id = secrets.token_hex(6)
    with quiet.undisturbed():
        for engine, body in pairs:
            _run(engine.ready(round_id), body)
        from_ns = clock_ns()

        def spent_s() -> float:
            return (clock_ns() - from_ns) / 1e9

        with quiet.muted():

            def rounds(n: int) -> None:
                for _ in range(n):
                    for engine, body in (*pairs, *reversed(pairs)):
                        _run(engine.take(lambda: spent_s() / len(engines)), body)

            while not all(engine.finished for engine in engines) and spent_s() < MOST_S:
                rounds(1)
            stopped_by = ""
            while spent_s() < decide_s and not _decided(engines, band):
                rounds(max(1, int(len(engines[0].done_so_far()) * MORE_FRAC / 2)))
                stopped_by = "stopped when the comparison was decided, or after the time for it"
        for engine in engines:
            engine.done_sampling(stopped_by)


def _decided(engines: Sequence[Engine], band: float) -> bool:
    first = engines[0].done_so_far()
    intervals = [ratio_interval(engine.done_so_far(), first, interleaved=True) for engine in engines[1:]]
    return all(found is not None and judged(found, band) != "unclear" for found in intervals)


def _run(steps: Steps[None], body: Callable[[], object]) -> None:
    """Run a body once for every step of an engine."""
    for some in steps:
        for () in some:
            body()
