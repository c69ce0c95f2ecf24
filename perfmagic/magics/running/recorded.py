"""What magics that record a cell share: their options, and the recorder that follows them."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from perfmagic.capture.recording.recorder import DEVICE_KINDS, Recorder
from perfmagic.capture.watch.sources import shown_path
from perfmagic.magics.running.options import Parser
from perfmagic.trace.model import Cell


def add_device_option(parser: Parser) -> None:
    """Which device is recorded."""
    parser.add_argument(
        "--device", default="auto", choices=DEVICE_KINDS, help="what to record (default: the devices in use)"
    )


def add_recording_options(parser: Parser) -> None:
    """What is recorded."""
    add_device_option(parser)
    parser.add_argument(
        "--comm-names",
        metavar="REGEX",
        help="kernels whose name matches count as communication, in place of the built-in rule",
    )
    parser.add_argument("--memory", action="store_true", help="also record what is allocated on the devices over time")
    parser.add_argument(
        "--shapes", action="store_true", help="also record shapes and types of operators' inputs: FLOP/s, roofline"
    )
    parser.add_argument(
        "--lines",
        action=argparse.BooleanOptionalAction,
        help="also follow the lines of functions (default: on Python 3.12 and later)",
    )
    add_packages_option(parser)


def add_packages_option(parser: Parser) -> None:
    """Whose functions are followed."""
    parser.add_argument(
        "--in",
        dest="packages",
        metavar="PACKAGES",
        help="installed packages whose functions are followed, too, parted by commas",
    )


def recorder_of(shell: Any, cell: Cell, options: argparse.Namespace) -> Recorder:
    """The recorder that those options ask for. Raises OptionError for a package that is not there."""
    packages = tuple(name.strip() for name in (options.packages or "").split(",") if name.strip())
    return Recorder(
        cell=cell,
        device=options.device,
        memory=options.memory,
        names=shell.user_ns if options.memory else None,
        shapes=options.shapes,
        lines=True if packages and options.lines is None else options.lines,
        packages=packages,
        label=partial(label_of, shell),
    )


def label_of(shell: Any, filename: str) -> str:
    """What a file of code is called in front of people: "In[5]" for a cell."""
    if hasattr(shell.compile, "format_code_name"):
        named = shell.compile.format_code_name(filename)
        return named[1] if named else shown_path(filename)
    # IPython 7 gives no way back from a name to its cell
    for number, source in reversed(list(enumerate(shell.history_manager.input_hist_raw))):
        if shell.compile.get_code_name(source, source, number) == filename:
            return f"In[{number}]"
    return shown_path(filename)
