"""What can go wrong, as one small tree.

Every message says where it happened, what was found, with numbers, and (as `hint`) what to do about it.
Magics show these in one line, without a traceback of perfmagic's own frames.
"""

from __future__ import annotations

from perfmagic.base.urls import without_secrets


class PerfmagicError(Exception):
    """Base of every error perfmagic raises on purpose.

    message: where and what, with numbers.  hint: what the reader can do, or None. What is secret in a URL is hidden in
    both: notebooks are saved with their errors.

    >>> try:
    ...     perfmagic.open_trace("nothing.json")
    ... except perfmagic.PerfmagicError as error:
    ...     print(error.message, error.hint, sep=": ")
    there is no file nothing.json: check the name and the folder
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = without_secrets(message)
        self.hint = hint and without_secrets(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\nHint: {self.hint}" if self.hint else self.message


class OptionError(PerfmagicError, ValueError):
    """An option or argument has a value perfmagic cannot use."""


class KeywordError(OptionError, TypeError):
    """A function was called with arguments that it does not take."""


class TraceError(PerfmagicError, ValueError):
    """A trace file cannot be read, or does not hold what was asked of it."""


class CaptureError(PerfmagicError, RuntimeError):
    """A cell or a block cannot be measured here."""


class RanksError(CaptureError):
    """A cell failed in one or more ranks: what they raised, and which ranks were released.

    failures: one for each rank that did not end well.
    """

    def __init__(self, message: str, failures: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.failures = failures

    @classmethod
    def named(cls, name: str, message: str, failures: tuple[object, ...]) -> RanksError:
        """One that is called as what the ranks raised, so that a notebook's error output names it."""
        kind = cls if name == cls.__name__ else type(name, (cls,), {"__module__": cls.__module__})
        error: RanksError = kind(message, failures)
        return error

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the ranks' own tracebacks, and none of ours."""
        return self.message.split("\n")


class RanksInterrupt(KeyboardInterrupt):
    """The notebook was interrupted while a cell ran in ranks; the message says where each stood."""

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")


class DeviceError(CaptureError):
    """The device asked for is absent, or cannot do what was asked of it."""


class CommunicationError(DeviceError):
    """An operation between ranks failed, or was ended because another rank will not take part."""


class TorchMissingError(CaptureError, ImportError):
    """torch is needed for this and is not installed."""

    def __init__(self, wanted_for: str) -> None:
        super().__init__(
            f"{wanted_for} needs torch, which is not installed in this environment",
            hint="install the build for your machine (https://pytorch.org/get-started), for example: pip install torch",
        )
