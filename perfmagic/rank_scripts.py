"""python -m perfmagic join: a script under torchrun, srun or mpirun, watched and recorded without a notebook."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perfmagic.api import describe
from perfmagic.capture.devices import groups
from perfmagic.capture.devices.backends import choose_device, cuda_available, require_torch
from perfmagic.capture.ranks.joined import Joined
from perfmagic.capture.ranks.launched import Launched, launched
from perfmagic.capture.ranks.pings import Exchange
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.errors import OptionError
from perfmagic.files import made_folder
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
) -> int:
    """Run a script as a rank of the job that a launcher has started; the exit status of the process.

    save: the folder to write this rank's trace to, as rank0.npz and so on; None records nothing.
    device: what perfmagic.device() gives, as in %%ranks; "auto" loads no simulated device.
    memory, shapes: as in perfmagic.timeline(). Raises OptionError where no launcher's variables are set.
    """
    place = launched()
    if not Path(script).is_file():
        raise OptionError(f"join: there is no script {script}", hint="python -m perfmagic join train.py")
    folder = made_folder(save) if save is not None else None
    require_torch("join")
    _choose(device, place)
    joined = Joined(place, script, float(os.environ.get(GRACE, "3")))
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    pings = joined.clocks.round(0) if folder else []
    recorder = Recorder(
        origin="block", device=device, memory=memory, shapes=shapes, ready=lambda: joined.together(pings),
        rank=(place.rank, place.world),
    )  # fmt: skip
    if folder:
        recorder.start()
    error: BaseException | None = None
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        error = ended if ended.code not in (None, 0) else None
    except BaseException as raised:  # noqa: BLE001 - told below, after the others have been
        error = raised
    after = joined.clocks.round(1) if folder else []  # rank 0 answers until all have said that they ended
    words = joined.ended(error)
    if words:
        print(f"perfmagic: {words}", file=sys.stderr, flush=True)
    elif error is not None and not isinstance(error, SystemExit):
        _print(error, script)
    try:
        if folder:
            _write(recorder.stop(describe(error)), [*pings, *after], folder, place)
    finally:
        joined.left(failed=error is not None)
    return _status(error)


def _choose(device: str, place: Launched) -> None:
    if device == "cuda" or (device == "auto" and cuda_available()):
        choose_device("cuda", place.local_rank)
    elif device != "auto":
        choose_device(device, 0)
    if device == "sim":
        groups.register()


def _write(trace: Trace, pings: Sequence[Exchange], folder: Path, place: Launched) -> None:
    trace = replace(trace, meta=replace(trace.meta, pings=tuple(pings)))
    path = write_npz(trace, folder / f"rank{place.rank}.npz")
    print(f"perfmagic: rank {place.rank} of {place.world} is in {path}", file=sys.stderr, flush=True)


def _print(error: BaseException, script: str) -> None:
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
