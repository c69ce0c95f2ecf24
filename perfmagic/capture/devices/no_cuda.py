"""Code that was written for CUDA, on a machine without: torch's own error ends with the line that works here."""

from __future__ import annotations

from types import FrameType

from perfmagic.base.errors import PerfmagicError
from perfmagic.capture.devices.backends import cuda_available

_NO_CUDA = "there is no CUDA device here"
_MADE_BY = ("__new__", "__init__")  # a class of torch.cuda is asked for


def advise(error: BaseException) -> None:
    """End the text of an error that torch.cuda raised for want of CUDA with a hint; other errors stay as they are.

    Its type and torch's words before the hint stay. Text that is no single string gets a note, from Python 3.11 on.
    """
    hint = hint_for(error)
    if not hint or hint in str(error):
        return
    if len(error.args) == 1 and error.args[0] == str(error):
        error.args = (f"{error}\n{hint}",)
    elif hasattr(error, "add_note") and hint not in getattr(error, "__notes__", ()):
        error.add_note(hint)


def hint_for(error: BaseException) -> str:
    """What works in place of the call of torch.cuda that raised an error; "" where CUDA is there, or it was no such."""
    if isinstance(error, PerfmagicError):  # it says so itself
        return ""
    frames = _frames_of_torch(error)
    in_cuda = [frame for frame in frames if _module(frame).split(".")[:2] == ["torch", "cuda"]]
    if not in_cuda or cuda_available():
        return ""
    asked = next((name for name in map(_public_name, in_cuda) if name), "")
    if asked == "synchronize":
        return f"Hint: {_NO_CUDA}; on any device: perfmagic.synchronize(device)"
    if not asked:
        as_it_is = "%%timeline --on H100 predicts the cell as it is"
        return f'Hint: {_NO_CUDA}; {as_it_is}; in place of "cuda": device = perfmagic.device(), then .to(device)'
    from perfmagic import sim  # here, as most errors are none of torch.cuda's

    if hasattr(sim.torch_module(), asked):
        return f"Hint: {_NO_CUDA}; on a simulated one: device = perfmagic.device(), then torch.sim.{asked}"
    return f"Hint: {_NO_CUDA}, and the simulated one of perfmagic.device() has no torch.cuda.{asked}"


def _frames_of_torch(error: BaseException) -> list[FrameType]:
    """The frames below the last one that is not torch's: the call that failed."""
    frames: list[FrameType] = []
    trace = error.__traceback__
    while trace is not None:
        frames = [*frames, trace.tb_frame] if _module(trace.tb_frame).partition(".")[0] == "torch" else []
        trace = trace.tb_next
    return frames


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _public_name(frame: FrameType) -> str:
    """The function or class of torch.cuda that a frame runs, "" for what is torch's own."""
    name = frame.f_code.co_name
    if name in _MADE_BY:
        made = frame.f_locals.get("cls") or type(frame.f_locals.get("self"))
        return str(getattr(made, "__name__", ""))
    return "" if name.startswith(("_", "<")) else name
