"""Other people's profilers: a finished torch.profiler becomes a Trace, and on_trace_ready= gets a handler of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from perfmagic.base.errors import CaptureError
from perfmagic.base.files import file_path
from perfmagic.capture.owner import Owner
from perfmagic.capture.recording.host import file_in_new_folder
from perfmagic.trace.formats.chrome import write_chrome
from perfmagic.trace.formats.tensorboard import worker_file
from perfmagic.trace.kineto.reader import read_trace
from perfmagic.trace.model import Trace


def profiler_trace(profiler: Any) -> Trace:
    """What a finished torch.profiler.profile, or torch.autograd.profiler.profile, recorded.

    torch hands its result out once; the profiler keeps what was taken here, for its owner's own export. Raises
    CaptureError where it was exported before, or the profiler has not ended.
    """
    owner = Owner()
    with owner, owner:
        path = file_in_new_folder(owner)
        try:
            profiler.export_chrome_trace(str(path))
        except (RuntimeError, AssertionError, AttributeError) as error:
            raise _refused(error) from error
        from perfmagic.capture.devices import torch_private  # files are opened without torch

        torch_private.keep_saved_result(profiler, path)
        return read_trace(path, origin="profiler")


def trace_handler(folder: str | os.PathLike[str], worker: str | None = None) -> Callable[[Any], None]:
    """A handler for torch.profiler.profile(on_trace_ready=…): writes a trace file each time a cycle has ended.

    folder: made where it does not exist.  worker: how files begin, "rank3" or "worker" if left out. They end in
    .pt.trace.json.gz, as TensorBoard's plugin and perfmagic.open_traces expect. Names with quotes, which break torch's
    own export, are written right; host names, user names and folders are left out.
    """
    target = file_path(folder)

    def handler(profiler: Any) -> None:
        trace = profiler_trace(profiler)
        write_chrome(trace, worker_file(target, trace, worker))

    return handler


def _refused(error: Exception) -> CaptureError:
    if "already saved" in str(error):
        return CaptureError(
            "this profiler's result was saved before, and torch gives it only once",
            hint="open the file it was saved to: perfmagic.open_trace(path)",
        )
    return CaptureError(
        f"this profiler has no result yet ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})",
        hint="open it after its with-block, or after stop()",
    )
