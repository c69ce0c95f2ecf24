"""The steps of a training loop: marked where the optimizer steps, and begun on all ranks of a job together."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from perfmagic.base import units
from perfmagic.base.clock import virtual_clock
from perfmagic.base.language import phrase
from perfmagic.capture.recording.assembly import is_rank
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.trace.columns import Remark

# ranks come here from the same collective of the same step; a rank that records alone waits so long, once
MEET_S = 5.0
_numbers = {"met": 0}


def line_up() -> Remark | None:
    """Return on all ranks of the job at one time; a note where others did not come within MEET_S.

    Ranks meet at the store of torch.distributed: a collective would wait for ever for ranks that do not record.
    """
    if not is_rank() or virtual_clock() is not None:
        return None
    import torch.distributed as dist

    from perfmagic.capture.devices.torch_private import default_store

    _numbers["met"] += 1
    store: Any = default_store()
    if store is None or dist.get_world_size() < 2:
        return None
    with suppress(RuntimeError, OSError):
        if store.add(f"perfmagic/came/{_numbers['met']}", 1) == dist.get_world_size():
            store.set(f"perfmagic/met/{_numbers['met']}", "1")
        store.wait([f"perfmagic/met/{_numbers['met']}"], timedelta(seconds=MEET_S))
        return None
    waited = units.duration(MEET_S * 1e9)
    return Remark(
        "alone", phrase("other ranks did not begin to record within {time}: this rank began alone", time=waited)
    )


class OptimizerMarks:
    """Marks of steps, each from one end of the first optimizer's step to the next; a resource of capture.owner.

    What comes before the first end is start-up, and no step: its number would be 0.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._optimizer: Any = None
        self._since_ns, self._number = 0, 0
        self._hook: Any = None

    def acquire(self) -> None:
        register: Callable[[Any], Any] | None = getattr(
            sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_post_hook", None
        )
        self._hook = register(self._after) if register is not None else None

    def give_back(self) -> None:
        if self._hook is not None:
            self._hook.remove()
        self._optimizer = None

    def _after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is not self._optimizer:
            return
        now_ns = self._recorder.now_ns()
        if self._number:
            self._recorder.step(f"ProfilerStep#{self._number}", self._since_ns, now_ns)
        else:
            self._recorder.begin_steps()
        self._since_ns, self._number = now_ns, self._number + 1
