"""The shell of a rank: streams, displays, values and tracebacks that go to the notebook."""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError
from IPython.core.interactiveshell import InteractiveShell

from perfmagic.capture.devices.no_cuda import advise
from perfmagic.capture.ranks.failures import is_mismatch
from perfmagic.capture.ranks.service import Service


def ended_by_others(service: Service, error: BaseException) -> bool:
    """Whether a cell ended because its operations were ended, or because the notebook was interrupted."""
    ends = isinstance(error, (RuntimeError, KeyboardInterrupt)) and not is_mismatch(str(error))
    return ends and bool(service.freed or service.interrupted)


def no_input(_prompt: object = "") -> str:
    """input() in a rank. Raises StdinNotImplementedError: several processes cannot ask one person."""
    message = "a rank has nobody to ask: call input() in the notebook, and send the answer with %ranks push NAME"
    raise StdinNotImplementedError(message)


class NamedCells(CachingCompiler):
    """Keeps the file name of the running cell's code."""

    service: Service | None = None

    def cache(self, *args: Any, **kwargs: Any) -> str:
        name: str = super().cache(*args, **kwargs)
        if self.service is not None and not self.service.cell_file:
            self.service.cell_file = name
        return name


class Publisher(DisplayPublisher):
    """Sends what is displayed to the notebook."""

    def publish(self, data: Any, *_: Any, **__: Any) -> None:
        shell: Any = self.shell
        if shell.connection.is_own:  # a forked child cannot reach the notebook
            shell.connection.send({"display": data})

    def clear_output(self, wait: bool = False) -> None:
        """Nothing: the output is shared."""


class Hook(DisplayHook):
    """Keeps the last value of a cell. Earlier values, where all are shown, go to the notebook at once."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        shell: Any = self.shell
        if shell.value is not None:
            shell.connection.send({"display": shell.value})
        shell.value = format_dict

    def finish_displayhook(self) -> None:
        pass


class RankShell(InteractiveShell):
    """Keeps tracebacks and values instead of printing them."""

    compiler_class = NamedCells
    traceback_text = ""
    value: Any = None
    connection: Any = None
    service: Any = None

    def ask_exit(self) -> None:
        """Called by quit()."""
        print("perfmagic: quit() ends no rank; %ranks stop ends all")

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        """Format an error, unless nobody will see it: the first time, frames of torch take a second."""
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None and ended_by_others(self.service, error):
            return
        if error is not None:
            advise(error)
        super().showtraceback(exc_tuple, *args, **kwargs)

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.print_traceback()
        self.traceback_text = "\n".join(stb)

    def print_traceback(self) -> None:
        """Print a traceback that did not end the cell: of a failing repr, or of a script under %run."""
        text, self.traceback_text = self.traceback_text, ""
        if text:
            sys.stderr.write(f"{text}\n")
