"""A cell of %%ranks inside one rank: recorded as %%timeline records, and sent to the notebook instead of shown."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from perfmagic.api.timelines import describe
from perfmagic.base.clock import VIRTUAL
from perfmagic.base.errors import OptionError
from perfmagic.capture.ranks.job import wait_until
from perfmagic.capture.ranks.pings import Exchange
from perfmagic.capture.ranks.service import Service
from perfmagic.capture.recording.recorder import Recorder
from perfmagic.magics.running.options import Parser
from perfmagic.magics.running.recording import code_label, with_clock_note
from perfmagic.trace.formats.npz import write_npz
from perfmagic.trace.model import Cell


class RankMagic:
    """`%%ranks` inside a rank.  record: how the next cell is recorded.  recorded: its trace as .npz.

    pings: exchanges with rank 0 before the cell, none where all ranks read one clock.
    """

    repeated = False

    def __init__(self) -> None:
        self.service: Service | None = None
        self.record: dict[str, Any] = {}
        self.clock_ns = 0
        self.pings: list[Exchange] = []
        self.recorded = b""
        self.late_error: BaseException | None = None

    def parser(self) -> Parser:
        """The notebook has parsed the line, so that nothing is checked here."""
        return _NoParser("%%ranks", "Several processes from one cell.", form="")

    def begin(self, shell: Any, cell: Cell, _options: argparse.Namespace, _rest: str) -> RankRun:
        return RankRun(self, shell, cell)


class _NoParser(Parser):
    def split(self, text: str) -> tuple[argparse.Namespace, str]:
        return argparse.Namespace(help=False), ""


class RankRun:
    """One recorded cell of a rank."""

    def __init__(self, magic: RankMagic, shell: Any, cell: Cell) -> None:
        self._magic, self._shell = magic, shell
        self.option_error: OptionError | None = None
        how = {"label": partial(code_label, shell), **magic.record}
        self._recorder = Recorder(cell=cell, ready=self._wait_for_others, clock_ns=magic.clock_ns, **how)
        self.mark, self.inner = self._recorder.marks.mark, self._recorder.marks.inner

    def start(self) -> None:
        __tracebackhide__ = True
        self._recorder.start()

    def finish(self, error: BaseException | None) -> None:
        if self._recorder.forked():
            return
        trace = with_clock_note(self._recorder.stop(describe(error)), self._shell)
        self._magic.late_error = self._recorder.late_error
        service = self._magic.service
        if service is not None and service.job is not None:
            job = service.job
            pings = (*self._magic.pings, *(job.clocks.round(1) if job.clocks and not VIRTUAL else ()))
            meta = replace(trace.meta, rank=job.rank, world_size=job.settings.world, pings=pings)
            trace = replace(trace, meta=meta)
        with tempfile.TemporaryDirectory() as folder:
            self._magic.recorded = write_npz(trace, Path(folder) / "trace.npz", compressed=False).read_bytes()

    def release(self) -> None:
        self._recorder.give_back()

    def _wait_for_others(self) -> None:
        if self._magic.service is not None:
            wait_until(self._magic.service.wait_for_go())


MAGICS = {"ranks": RankMagic()}
