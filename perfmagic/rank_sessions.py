"""perfmagic.ranks(n): several processes of one notebook or script, which %%ranks runs its cells in."""

from __future__ import annotations

import atexit
import os
import pickle
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perfmagic.capture.ranks.session import CellEnd, Outputs, Session, close_drivers
from perfmagic.capture.ranks.settings import Settings
from perfmagic.errors import OptionError
from perfmagic.keywords import documented
from perfmagic.rank_ends import raise_failure, result_of
from perfmagic.rank_outputs import outputs, show_values
from perfmagic.rank_starts import cluster_of, preload, settings_of
from perfmagic.rank_status import status_words
from perfmagic.rank_values import pickled_together
from perfmagic.show import running_shell

if TYPE_CHECKING:
    from perfmagic.results import RanksResult

MOST_RANKS = 64
DEVICES = ("auto", "cuda", "sim", "cpu")
DEFAULT_RANKS = 2
LOCAL = "local"  # in place of a cluster's name: this machine


class Ranks:
    """Some processes with variables of their own, from ranks() to stop().

    result: of the last recorded cell.  cluster: whose engines they run beside, "" for this machine.
    """

    def __init__(self, settings: Settings, said: Outputs | None = None, cluster: str = "") -> None:
        self._settings, self.cluster = settings, cluster
        self._session = self._started(said)
        self.result: RanksResult | None = None

    def __len__(self) -> int:
        return self._settings.world

    @property
    def settings(self) -> Settings:
        """What they were started with."""
        return self._settings

    def run(
        self,
        code: str,
        *,
        on: Sequence[int] | None = None,
        record: bool = False,
        memory: bool = False,
        shapes: bool = False,
        lines: bool | None = None,
    ) -> RanksResult | None:
        """Run code in all ranks, or in those of `on`; what was recorded, None for a plain run.

        Raises RanksError where it fails in a rank: the others are freed, and all go on with the next one.
        """
        how = {"memory": memory, "shapes": shapes, "lines": lines}
        end = self.end_of(f"%%ranks\n{code}", on=on, record=how if record else None)
        found = self.recorded(end)
        raise_failure(end)
        return found

    @property
    def device(self) -> str:
        """What they compute on: "cuda", "sim" or "cpu"."""
        return self._session.device

    def end_of(
        self,
        source: str,
        *,
        on: Sequence[int] | None = None,
        record: dict[str, Any] | None = None,
        show: bool = True,
    ) -> CellEnd:
        """Run a cell whose first line is its magic's; values are shown, failures are in what it gives."""
        shell = running_shell()
        count = len(shell.history_manager.input_hist_parsed) - 1 if shell is not None else 0  # of the cell that runs
        interactivity = str(getattr(shell, "ast_node_interactivity", ""))
        end = self._session.run(source, on=on, record=record, count=count, interactivity=interactivity)
        if show:
            show_values(end)
        return end

    def recorded(self, end: CellEnd) -> RanksResult | None:
        """The result of what a cell recorded; None where that is nothing."""
        found = self.result = result_of(end) if end.recorded else self.result
        return found if end.recorded else None

    def push(self, **values: Any) -> None:
        """Give variables of this process to all ranks. Raises OptionError that names each which cannot be pickled."""
        self._session.push(pickled_together(values), list(values))

    def __getitem__(self, expression: str) -> list[Any]:
        """The value of a variable, or of an expression, in each rank; tensors of devices come on the CPU."""
        return [pickle.loads(value) for value in self._session.pull(expression)]

    def restart(self) -> None:
        """New processes in place of these; their variables are lost, and set-up cells run again."""
        self.stop()
        self._session = self._started()
        _current[:] = [self]
        self.set_up()

    def set_up(self) -> None:
        """Run the set-up cells of the notebook in these ranks, which are new. Raises RanksError where one fails."""
        for source in _setup_cells.values():
            raise_failure(self.end_of(source, show=False))

    def stop(self) -> None:
        """End the processes."""
        self._session.close()
        if _current[:1] == [self]:
            _current.clear()

    @property
    def running(self) -> bool:
        """Whether they are there: some may have ended by themselves."""
        return bool(self._session.peers)

    def status(self) -> str:
        """A line for each rank: its process, its memory and where it stands."""
        return status_words(self._session) if self.running else "no ranks run; %%ranks -n 4 starts some"

    def _started(self, said: Outputs | None = None) -> Session:
        settings = self._settings
        if self.cluster:
            return Session(settings, said or outputs(), driver=cluster_of(self.cluster))
        return Session(settings, said or outputs(), preload(settings.device))

    def __enter__(self) -> Ranks:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return self.status()


@documented()
def ranks(n: int | None = None, *, device: str = "auto", backend: str = "", cluster: str = "") -> Ranks:
    """How does code behave in several processes? Those that %%ranks runs its cells in; they are started where needed.

    n (None): how many; None for those that run, else two, or one for each engine of a cluster.
    device ("auto"): what each computes on: "auto" for a GPU each where there are enough, else the simulated device;
    "cuda", "sim" or "cpu".
    backend (""): of torch.distributed; the one that fits the device where none is given.
    cluster (""): a running ipyparallel cluster, a rank beside each of its engines: its profile, its id, PROFILE/ID or
    its connection file. Without it, those that run; "local" for processes of this machine.
    Others in number, device, backend or cluster than those that run replace them: their variables are lost, and cells
    that ran with `%%ranks --setup` run again.
    Raises CaptureError where they cannot be started.
    """
    running = _current[0] if _current and _current[0].running else None
    if n is not None and not 1 <= n <= MOST_RANKS:
        raise OptionError(f"ranks({n}): 1 to {MOST_RANKS} processes", hint="perfmagic.ranks(4)")
    if device not in DEVICES:
        raise OptionError(f"device kind {device!r} is not known", hint="one of " + ", ".join(DEVICES))
    if running is not None and _fits(running, n, device, backend, cluster):
        return running
    where = "" if cluster == LOCAL else cluster or (running.cluster if running is not None else "")
    engines = len(cluster_of(where).engines) if where else DEFAULT_RANKS
    before = running.settings if running is not None and running.cluster == where else None
    if running is not None:
        running.stop()
    world = n or (before.world if before else min(engines, MOST_RANKS))
    _current[:] = [Ranks(settings_of(world, device, backend), cluster=where)]
    _current[0].set_up()
    return _current[0]


def keep_as_setup(cell: str, source: str) -> None:
    """Run this source first in all ranks that start from now on.

    cell: what it is known by, so that a cell that was changed and run again replaces what it was before.
    """
    _setup_cells.pop(cell, None)
    _setup_cells[cell] = source


def forget_setup() -> None:
    """Run no set-up cells any more."""
    _setup_cells.clear()


def current() -> Ranks | None:
    """The ranks that run, None where there are none."""
    return _current[0] if _current else None


_current: list[Ranks] = []
_setup_cells: dict[str, str] = {}  # by cell, in the order in which they ran last


_home = os.getpid()


def _end_all() -> None:
    if os.getpid() != _home:  # a fork of the notebook ends: the ranks are not its own
        return
    while _current:
        _current[0].stop()
    close_drivers()
    cluster = sys.modules.get("perfmagic.capture.ranks.cluster")
    if cluster is not None:
        cluster.close_all()


atexit.register(_end_all)


def _fits(running: Ranks, n: int | None, device: str, backend: str, cluster: str) -> bool:
    has = running.settings
    if cluster and running.cluster != ("" if cluster == LOCAL else cluster):
        return False
    return n in (None, has.world) and device in ("auto", has.device) and backend in ("", has.backend)
