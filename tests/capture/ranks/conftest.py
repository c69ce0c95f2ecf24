"""Two or three ranks on the CPU, started once for all tests of a file, and what they print."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from perfmagic.api.ranks.session import PRELOAD, PROGRAM
from perfmagic.capture.ranks.failures import Failure, message_of
from perfmagic.capture.ranks.printed import Outputs
from perfmagic.capture.ranks.session import CellEnd, Session
from perfmagic.capture.ranks.settings import Settings

GRACE_S = 0.4
USE = """import os, time, torch, torch.distributed as dist
t = torch.ones(8)
def use():
    t.fill_(1.0)
    dist.all_reduce(t)
    return t.sum().item()"""


@dataclass
class Heard:
    """What ranks said: lines as (rank, stream, text), displays, and the words of the notebook's side."""

    lines: list[tuple[int, str, str]] = field(default_factory=list)
    displays: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def outputs(self) -> Outputs:
        return Outputs(
            lines=self._hear,
            display=lambda *shown: self.displays.append(shown),
            tell=self.notices.append,
        )

    def _hear(self, rank: int, stream: str, text: str) -> None:
        self.lines += [(rank, stream, line) for line in text.split("\n")]


class Cells:
    """Ranks as a test uses them."""

    def __init__(self, world: int, preload: Sequence[str] = PRELOAD, **settings: Any) -> None:
        self.heard = Heard()
        self._preload = preload
        fields = {"device": "cpu", "colors": "nocolor", "grace_s": GRACE_S} | settings
        self._settings = Settings(world, PROGRAM, **fields)
        self.session = Session(self._settings, self.heard.outputs(), self._preload)

    def run(self, body: str, **how: Any) -> CellEnd:
        """A cell whose body begins on line 2."""
        self.heard.lines.clear()
        self.heard.displays.clear()
        self.heard.notices.clear()
        return self.session.run(f"%%ranks\n{body}", **how)

    def works(self) -> bool:
        """Whether the next cell of all ranks is a good one."""
        end = self.run("use()")
        world = self.session.world
        return not end.failures and [v["text/plain"] for v in end.values.values()] == [str(8.0 * world)] * world

    def restart(self) -> None:
        self.session.close()
        self.session = Session(self._settings, self.heard.outputs(), self._preload)
        self.run(USE)


def messages(end: CellEnd) -> list[str]:
    """What is said of a cell's failures, without tracebacks."""
    plain = tuple(Failure(**{**vars(failure), "traceback": ""}) for failure in end.failures)
    return message_of(plain, end.hang).split("\n")


@pytest.fixture(scope="module")
def three() -> Iterator[Cells]:
    """Three ranks with `use()`, which needs them all."""
    pytest.importorskip("torch")
    cells = Cells(3)
    cells.run(USE)
    yield cells
    cells.session.close()
