"""%trace FILE…: what does this saved trace say?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from perfmagic.api import open_trace
from perfmagic.errors import OptionError
from perfmagic.magics.options import Parser, add_name_option
from perfmagic.magics.run import bind
from perfmagic.results import TimelineResult
from perfmagic.show import show


def parser() -> Parser:
    """The options of %trace."""
    made = Parser("%trace", "What saved Kineto traces say (Chrome JSON, gzipped or not).", form="FILE…")
    add_name_option(made)
    made.add_argument(
        "--comm-names", metavar="REGEX", help="kernels that count as communication, instead of the default rule"
    )
    return made


def run(shell: Any, line: str) -> TimelineResult | list[TimelineResult] | None:
    """Open and show each file; gives the result, or a list of them for several files."""
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return None
    paths = _paths(rest)
    results = [open_trace(path, comm_names=options.comm_names) for path in paths]
    for result in results:
        show(result)
    found = results[0] if len(results) == 1 else results
    bind(shell, options.name, found)
    return found


def _paths(text: str) -> list[Path]:
    """Words of the line; one existing file's name may hold spaces."""
    if not text:
        raise OptionError("%trace: no file given", hint="%trace run.pt.trace.json.gz")
    words = [text] if Path(text).expanduser().exists() else shlex.split(text)
    return [Path(word).expanduser() for word in words]
