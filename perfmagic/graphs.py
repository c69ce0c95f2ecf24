"""%%graph as a function: which operator needs which, and what could have run side by side?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfmagic.api import describe
from perfmagic.capture.owner import Owner
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.keywords import documented
from perfmagic.results.graph import GraphResult
from perfmagic.show import remember

__all__ = ["graph"]


@documented()
def graph(body: Callable[[], object], *, device: str = "auto", packages: Sequence[str] = ()) -> GraphResult:
    """Which operator of body() needs the data of which, what could have run side by side, and what did?

    body: called once. Where an exception or an interrupt ends it, perfmagic.last() has what ran before.
    device: what to record: "auto" for what is in use, "cuda", "sim" or "cpu".
    packages: installed packages whose functions are followed, too, for the lines of operators.
    Raises CaptureError where nothing can be recorded, DeviceError for an absent device.

    >>> import torch
    >>> found = perfmagic.graph(lambda: torch.ones(2) * torch.ones(2) + 2)
    >>> [(edge.needs_name, edge.of_name) for edge in found.edges()]
    [('ones', 'mul'), ('ones', 'mul'), ('mul', 'add')]
    """
    recorder = Recorder(
        origin="block", device=device, lines=True, packages=tuple(packages), needs=True, keeps_interrupted=True
    )
    owner = Owner()
    with owner, owner:
        owner.take(recorder)
        try:
            body()
        except BaseException as error:
            if not recorder.forked():
                _result(recorder, error)
            raise
        return _result(recorder, None)


def _result(recorder: Recorder, error: BaseException | None) -> GraphResult:
    trace = recorder.stop(describe(error), error)
    found = GraphResult(trace, recorder.seen())
    remember(found)
    recorder.raise_stopped(error)
    return found
