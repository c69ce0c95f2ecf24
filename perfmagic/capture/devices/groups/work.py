"""What an operation returns: for the device the stream waits, as with NCCL; for the host the host does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from perfmagic.capture.devices.groups.gloo import Gloo
from perfmagic.capture.devices.groups.standing import Asked
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

    def __init__(self, job: Job, result: Any, *, blocks: bool = False, source: list[int] | None = None) -> None:
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
        return self._source[0] if self._source else -1

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
    """An operation of gloo on host tensors.

    works: of gloo.  finish: what is left to do once they are over, by whoever waits.  note: to be called at the end.
    """

    def __init__(
        self, gloo: Gloo, asked: Asked, works: list[Any], finish: Callable[[], None] | None, note: Callable[..., None]
    ) -> None:
        super().__init__()
        self._gloo, self._asked, self._works, self._finish, self._note = gloo, asked, works, finish, note

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Block until it is done. Raises CommunicationError where it failed or was ended."""
        __tracebackhide__ = True
        limit = () if timeout is None else (timeout,)
        try:
            for work in self._works:
                self._gloo.run(self._asked.title, partial(work.wait, *limit))
        except CommunicationError:
            self._note(given_up=True)
            raise
        self._note()
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        self._asked.done()
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> BaseException | None:
        return next((error for work in self._works if (error := work.exception()) is not None), None)

    def result(self) -> Any:
        return self._works[-1].result()

    def synchronize(self) -> None:
        self.wait()

    def _source_rank(self) -> int:
        return int(self._works[0]._source_rank())

    source_rank = _source_rank

    def get_future(self) -> Any:
        """gloo's own, where it is one and nothing is left to do afterwards."""
        futures = [work.get_future() for work in self._works]
        if len(futures) == 1 and self._finish is None:
            return futures[0]
        future: Any = torch.futures.collect_all(futures)

        def finished(done: Any) -> Any:
            self.wait()
            return [result for one in done.value() for result in one.value()]

        return future.then(finished)
