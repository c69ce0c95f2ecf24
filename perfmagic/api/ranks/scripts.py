"""python -m perfmagic join: a script under torchrun, srun or mpirun, watched and recorded without a notebook."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perfmagic import sim
from perfmagic.api.ranks.session import check_device
from perfmagic.api.timelines import describe
from perfmagic.base.clock import VIRTUAL
from perfmagic.base.errors import OptionError, PerfmagicError
from perfmagic.base.files import made_folder
from perfmagic.capture.devices.backends import choose_device, cuda_available, require_torch
from perfmagic.capture.devices.backends import device as choose_clock
from perfmagic.capture.ranks.helpers import finish_threads
from perfmagic.capture.ranks.joined import Joined
from perfmagic.capture.ranks.pings import Exchange
from perfmagic.capture.ranks.settings import Launched, launched
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.capture.recording.training import OptimizerMarks
from perfmagic.trace.formats.npz import write_npz
from perfmagic.trace.model import Trace

GRACE = "PERFMAGIC_RANKS_GRACE_S"


def join(
    script: str,
    arguments: Sequence[str] = (),
    *,
    save: str | None = None,
    device: str = "auto",
    memory: bool = False,
    shapes: bool = False,
    lines: bool | None = None,
    clock: str = "",
) -> int:
    """Run a script as a rank of the job that a launcher has started; the exit status of the process.

    save: the folder to write this rank's trace to, as rank0.npz and so on; None records nothing.
    device: what perfmagic.device() gives, as in %%ranks; "auto" loads no simulated device.
    memory, shapes, lines: as in perfmagic.timeline().  clock: as in %%ranks; "virtual" loads the simulated device.
    Raises OptionError where no launcher's variables are set, and for a device without that clock.
    """
    check_device(device, clock)
    device = "sim" if clock == "virtual" else device
    place = launched()
    require_torch("join")
    joined = Joined(place, script, float(os.environ.get(GRACE, "3")))
    try:
        if not Path(script).is_file():
            raise OptionError(f"join: there is no script {script}", hint="python -m perfmagic join train.py")
        folder = made_folder(save) if save is not None else None
        _choose_device(device, place)
        if device == "sim" and clock:
            choose_clock(clock=clock)
    except PerfmagicError as problem:  # on this host: the other ranks must not wait
        joined.ended(problem)
        joined.left(failed=True)
        raise
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    pings = joined.clocks.round(0) if folder and not VIRTUAL else []
    recorder = Recorder(
        origin="block", device=device, memory=memory, shapes=shapes, lines=lines,
        ready=lambda: joined.together(pings), rank=(place.rank, place.world),
    )  # fmt: skip
    marks = OptimizerMarks(recorder)
    if folder:
        recorder.start()
        marks.acquire()
    error = _run(script)
    marks.give_back()
    after = joined.clocks.round(1) if pings else []  # rank 0 answers until every rank has reported its end
    message = joined.ended(error)
    if message:
        print(f"perfmagic: {message}", file=sys.stderr, flush=True)
    elif error is not None and not isinstance(error, SystemExit):
        _print_traceback(error, script)
    try:
        if folder:
            _write_trace(recorder.stop(describe(error)), [*pings, *after], folder, place)
    finally:
        joined.left(failed=error is not None)
    return _status(error)


def _run(script: str) -> BaseException | None:
    """Run it to the end of its threads, which may still communicate with other ranks; the error it failed with."""
    try:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as ended:
            if ended.code not in (None, 0):
                return ended
        finish_threads()
    except BaseException as raised:  # noqa: BLE001 - the caller reports it, after the other ranks know
        return raised
    return None


def _choose_device(device: str, place: Launched) -> None:
    if device == "cuda" or (device == "auto" and cuda_available()):
        choose_device("cuda", place.local_rank)
    elif device != "auto":
        choose_device(device, 0)
    if device == "sim":
        sim.groups.register()


def _write_trace(trace: Trace, pings: Sequence[Exchange], folder: Path, place: Launched) -> None:
    trace = replace(trace, meta=replace(trace.meta, pings=tuple(pings)))
    path = write_npz(trace, folder / f"rank{place.rank}.npz")
    print(f"perfmagic: rank {place.rank} of {place.world} is in {path}", file=sys.stderr, flush=True)


def _print_traceback(error: BaseException, script: str) -> None:
    """The script's traceback, without what ran it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != script:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace or error.__traceback__)


def _status(error: BaseException | None) -> int:
    if error is None:
        return 0
    code = error.code if isinstance(error, SystemExit) else 1
    if not isinstance(code, int):
        print(code, file=sys.stderr)  # as Python does with sys.exit("words")
        return 1
    return code
