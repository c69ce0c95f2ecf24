"""%perfmagic: what is set, and what works here?   %perfmagic display MODE: how results are shown.

%perfmagic memory: what is on the devices now, and who holds it?
"""

from __future__ import annotations

from typing import Any

from perfmagic.capture.devices.doctor import diagnosis
from perfmagic.display import FACES, MODES, TEXT, choose, display_mode
from perfmagic.errors import OptionError
from perfmagic.magics.running.options import Parser
from perfmagic.show import in_notebook


def parser() -> Parser:
    """The options of %perfmagic."""
    return Parser(
        "%perfmagic",
        "Versions, devices, and how results are displayed; what is on the devices now.",
        form=f"[memory | display {'|'.join(MODES)}]",
    )


def run(shell: Any, line: str) -> None:
    """Print versions, devices and what each of them can give."""
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return
    words = rest.split()
    if words == ["memory"]:
        from perfmagic.magics.memory_now import memory_now

        print(memory_now(shell))
        return
    if words[:1] == ["display"] and len(words) == 2:
        choose(words[1])
    elif words:
        raise OptionError(
            f"%perfmagic knows `memory` and `display MODE`, got {rest!r}", hint="%perfmagic display static"
        )
    mode = display_mode()
    display = f"{mode}: {FACES[mode]}" if in_notebook(shell) else TEXT
    print("\n".join(f"{key:12} {value}" for key, value in {**diagnosis(), "display": display}.items()))
