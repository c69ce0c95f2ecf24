"""%perfmagic: what is set, and what works here?"""

from __future__ import annotations

from typing import Any

from perfmagic.capture.doctor import environment
from perfmagic.errors import OptionError
from perfmagic.magics.options import Parser


def parser() -> Parser:
    """The options of %perfmagic."""
    return Parser("%perfmagic", "What is set, and what works here.", form="")


def run(_shell: Any, line: str) -> None:
    """Print versions, devices and what each of them can give."""
    options, rest = parser().split(line)
    if rest:
        raise OptionError(f"%perfmagic takes no arguments, got {rest!r}")
    if options.help:
        print(parser().format_help())
        return
    print("\n".join(f"{key:12} {value}" for key, value in environment().items()))
