"""What an operation returns: for the device the stream waits, as with NCCL; for the host the host does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from perfmagic import units
from perfmagic.capture.devices.groups.courier import Errand
from perfmagic.capture.devices.sim.jobs import Job
from perfmagic.capture.devices.sim.launch import launch_lane
from perfmagic.capture.devices.sim.streams import Event, Stream
from perfmagic.capture.devices.sim.waits import wait_for_job
from perfmagic.errors import CommunicationError

_Work: Any = dist.Work  # its stubs declare more than a work of Python has to have


class DeviceWork(_Work):  # type: ignore[misc]
    """An operation on the device's stream.

    job: queued.  result: what a future gives.  blocks: the host waits in wait(), as it does at a barrier.
    source: which rank a message came from, once it is there.
    """

    def __init__(self, job: Job, result: Any, *, blocks: bool = False, source: Callable[[], int | None]) -> None:
        super().__init__()
        self._job, self._result, self._blocks, self._source = job, result, blocks, source

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Hold the current stream until the operation is done."""
        __tracebackhide__ = True
        lane = launch_lane(self._job.lane.device.index, [])[0]
        Event.of(self._job).wait(Stream._of(lane))
        if self._blocks:
            wait_for_job(self._job, "simStreamSynchronize")
        return True

    def is_completed(self) -> bool:
        return self._job.done

    def is_success(self) -> bool:
        return self._job.done and self._job.error is None

    def exception(self) -> BaseException | None:
        return self._job.error

    def result(self) -> Any:
        return self._result

    def synchronize(self) -> None:
        self.wait()

    def _source_rank(self) -> int:
        wait_for_job(self._job, "simStreamSynchronize")
        return _rank_of(self._source())

    source_rank = _source_rank

    def get_future(self) -> Any:
        """A future that is done already: the device holds the first op that uses the result behind the operation.

        torch orders the streams of whoever takes one, so that op races with nobody.
        """
        self._job.in_backward = self._job.ends_future = True
        future: Any = torch.futures.Future()
        future.set_result(self._result)
        return future


class HostWork(_Work):  # type: ignore[misc]
    """An operation on host tensors, which a courier does.

    result: what a future gives.  source: which rank a message came from, once it is there.
    """

    def __init__(self, errand: Errand, title: str, result: Any, source: Callable[[], int | None]) -> None:
        super().__init__()
        self._errand, self._title, self._result, self._source = errand, title, result, source

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Block until it is done. Raises CommunicationError where it failed, was ended or takes longer than timeout."""
        __tracebackhide__ = True
        limit_s = timeout.total_seconds() if timeout else 0.0
        if not self._errand.wait(limit_s or None):
            raise CommunicationError(f"{self._title} was not done within {units.duration_s(limit_s)}")
        if self._errand.error is not None:
            raise self._errand.error.with_traceback(None)
        return True

    def is_completed(self) -> bool:
        return self._errand.done

    def is_success(self) -> bool:
        return self._errand.done and self._errand.error is None

    def exception(self) -> BaseException | None:
        return self._errand.error

    def result(self) -> Any:
        return self._result

    def synchronize(self) -> None:
        self.wait()

    def _source_rank(self) -> int:
        self.wait()
        return _rank_of(self._source())

    source_rank = _source_rank

    def get_future(self) -> Any:
        """A future that is done, or has failed, when the operation is."""
        over: Any = torch.futures.Future()

        def finished(_: Any) -> Any:
            self.wait()
            return self._result

        future = over.then(finished)
        self._errand.when_done(lambda: over.set_result(None))
        return future


def _rank_of(source: int | None) -> int:
    """As torch has it, -1 for none."""
    return -1 if source is None else source
