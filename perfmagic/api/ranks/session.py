"""perfmagic.ranks(n): several processes of one notebook or script, which %%ranks runs its cells in.

Running ranks end only when their successors have started and are set up.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from perfmagic.api.options import CLOCKS, DEVICES, CellOptions, RanksOptions, keywords
from perfmagic.api.show import in_notebook, publish, running_shell
from perfmagic.base import units
from perfmagic.base.clock import virtual_clock
from perfmagic.base.errors import OptionError, RanksError, RanksInterrupt
from perfmagic.base.rank_words import describe_span
from perfmagic.base.units import plural
from perfmagic.capture.ranks.failures import message_of, type_of
from perfmagic.capture.ranks.printed import Outputs
from perfmagic.capture.ranks.session import CellEnd, Session, close_drivers
from perfmagic.capture.ranks.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from perfmagic.capture.ranks.cluster import Cluster
    from perfmagic.results import RanksResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

# How the ranks of a notebook or script are started.

MOST_RANKS = 64
PROGRAM = "perfmagic.magics.in_rank.program"
PRELOAD = (  # what every rank needs; nothing that starts a thread or touches CUDA
    "torch", "torch.distributed", "torch.nn.parallel", "perfmagic.api.timelines",
    "perfmagic.capture.recording.session", "perfmagic.sim", "perfmagic.trace.formats.npz",
    f"{PROGRAM}:prepare",
)  # fmt: skip
FOR_SIM = "perfmagic.sim:prepare", "perfmagic.sim.groups:register"
GRACE = "PERFMAGIC_RANKS_GRACE_S"  # how long a hang lasts before it is reported, for tests


def settings_for(world: int, device: str, backend: str, clock: str = "") -> Settings:
    """Settings of ranks that this notebook or script starts."""
    shell = running_shell()
    kept = virtual_clock()
    if kept is not None and not clock and device in ("auto", "sim"):
        if kept.measured:
            message = "ranks share this machine's cores, and their host cannot be measured as this notebook's is"
            raise OptionError(message, hint="%%ranks --clock virtual counts it")
        clock = "virtual"
    return Settings(
        world, PROGRAM, device="sim" if clock == "virtual" and device == "auto" else device, backend=backend,
        clock=clock,
        colors=str(getattr(shell, "colors", "")) if shell is not None else "nocolor",
        grace_s=float(os.environ.get(GRACE, "3")),
    )  # fmt: skip


def cluster_from(name: str) -> Cluster:
    """A running ipyparallel cluster by its profile, id or file. Raises CaptureError where there is none."""
    from perfmagic.capture.ranks.cluster import cluster_named

    return cluster_named(name)


# What ranks print, display and return, with the rank before it, in the notebook or on the terminal.


def outputs() -> Outputs:
    """Where the output of ranks goes."""
    return Outputs(lines=_print_lines, display=_display, tell=_print_message)


def _print_lines(rank: int, stream: str, text: str) -> None:
    label = f"[{rank}] "
    labelled = label + text.replace("\n", f"\n{label}")
    print(labelled, file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)


def _print_message(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _display(rank: int, bundle: dict[str, Any]) -> None:
    _show_bundle(f"[{rank}] ", bundle)


def _show_bundle(label: str, bundle: dict[str, Any]) -> None:
    """A value or a display of some ranks: text behind its label, a picture below it."""
    shell = running_shell()
    if set(bundle) == {"text/plain"} or shell is None or not in_notebook(shell):
        text = bundle.get("text/plain", "")
        print(label + text.replace("\n", "\n" + " " * len(label)), flush=True)
        return
    print(label.rstrip(), flush=True)
    publish(shell, bundle)


# What a cell in several ranks recorded, and how it failed.


def raise_failure(end: CellEnd) -> None:
    """Raise the error of a cell that failed in ranks."""
    message = message_of(end.failures, end.hang)
    if any(failure.died for failure in end.failures):
        message += "\nStart the ranks again: %ranks restart"
    if end.interrupted:
        raise RanksInterrupt(message or "KeyboardInterrupt: the cell had ended in all ranks")
    if end.failures or end.hang:
        raise RanksError.named(type_of(end.failures, end.hang), message, end.failures)


def result_from(end: CellEnd) -> RanksResult:
    """The result of a cell that was recorded in at least one rank."""
    from perfmagic.results import RanksResult, TimelineResult
    from perfmagic.trace.formats.sources import read_file

    timelines: list[TimelineResult] = []
    with tempfile.TemporaryDirectory() as folder:
        for rank, payload in sorted(end.recorded.items()):
            path = Path(folder) / f"rank{rank}.npz"
            path.write_bytes(payload)
            timelines.append(TimelineResult(read_file(path), title=f"rank {rank}"))
    return RanksResult.of(timelines)


def _status(session: Session) -> str:
    """A line for each rank that runs: its process, its memory and its state."""
    places = session.places()
    lines = [f"{session.world} ranks on {session.device}, {session.how}"]
    for peer in session.peers:
        place = places[peer.rank]
        state = "ready" if place else "does not answer" if peer.alive else f"{peer.death}; %ranks restart"
        started = peer.started
        where = started.engine or _private_memory(started.pid)
        lines.append(f"rank {peer.rank}  process {started.pid}  {where}  {state}")
    return "\n".join(lines)


def _private_memory(pid: int) -> str:
    """The memory that a rank shares with no other process; "" where the system does not say."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return ""
    return "private " + units.size(sum(int(row.split()[1]) * 1024 for row in rows if row.startswith("Private_")))


# Variables of the notebook or script that are sent to ranks.


def _pickle_together(values: Mapping[str, Any]) -> bytes:
    """The values as one pickled list, so that objects they share stay shared.

    Raises OptionError that names each value which cannot be pickled.
    """
    try:
        return pickle.dumps(list(values.values()))
    except Exception:  # noqa: BLE001 - whatever the values' own code raises
        reasons = {name: reason for name, value in values.items() if (reason := _why_unpicklable(value))}
    modules = [name for name, value in values.items() if isinstance(value, ModuleType)]
    hint = "what can be pickled can be sent: data, functions of modules"
    if modules:
        hint = f"%%ranks --setup with `import {values[modules[0]].__name__}` gives ranks a module; {hint}"
    # no reasons: each can be pickled alone, or by now
    message = (
        "; ".join(f"{name} {reason}" for name, reason in reasons.items()) or f"{', '.join(values)} cannot be pickled"
    )
    raise OptionError(message, hint=hint) from None


def _why_unpicklable(value: Any) -> str:
    """The reason why a value cannot be sent, "" where it can be."""
    if isinstance(value, ModuleType):
        return "is a module"
    try:
        pickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - as above
        return f"cannot be pickled ({type(error).__name__}: {error})"
    return ""


class Ranks:
    """Some processes with variables of their own, from ranks() to stop().

    result: of the last recorded cell.  cluster: whose engines they run beside, "" for this machine.
    """

    def __init__(self, settings: Settings, shown: Outputs | None = None, cluster: str = "") -> None:
        self._settings, self.cluster = settings, cluster
        self._session = self._start(shown)
        self.result: RanksResult | None = None

    def __len__(self) -> int:
        return self._settings.world

    @property
    def settings(self) -> Settings:
        """What they were started with."""
        return self._settings

    @keywords(CellOptions, intro="Options of the record:")
    def run(
        self, code: str, *, on: Sequence[int] | None = None, record: bool = False, **options: Unpack[CellOptions]
    ) -> RanksResult | None:
        """Run code in all ranks, or in those of `on`; what was recorded, None for a plain run.

        Raises RanksError where it fails in a rank: the others are freed, and all go on with the next one.
        """
        check_code("run", "code", code)
        end = self.run_cell(f"%%ranks\n{code}", on=on, record={**options} if record else None)
        result = self.keep_result(end)
        raise_failure(end)
        return result

    @property
    def device(self) -> str:
        """What they compute on: "cuda", "sim" or "cpu"."""
        return self._session.device

    def run_cell(
        self, source: str, *, on: Sequence[int] | None = None, record: dict[str, Any] | None = None, show: bool = True
    ) -> CellEnd:
        """Run a cell whose first line is its magic. Shows values; failures are in the CellEnd."""
        shell = running_shell()
        count = len(shell.history_manager.input_hist_parsed) - 1 if shell is not None else 0  # of the cell that runs
        interactivity = str(getattr(shell, "ast_node_interactivity", ""))
        end = self._session.run(source, on=on, record=record, count=count, interactivity=interactivity)
        if show:
            # the values of the cell's last expression; equal ones once
            same: dict[str, list[int]] = {}
            for rank, bundle in sorted(end.values.items()):
                same.setdefault(str(bundle.get("text/plain", "")), []).append(rank)
            for ranks in same.values():
                _show_bundle(f"[{describe_span(ranks)}] ", end.values[ranks[0]])
        return end

    def keep_clock(self, clock: str) -> None:
        """Keep "real" or "virtual" time from now on; "": as it is."""
        if clock:
            self._session.keep_clock(clock)
            self._settings = replace(self._settings, clock=clock)

    def keep_result(self, end: CellEnd) -> RanksResult | None:
        """The result of a recorded cell, kept as `.result`; None where nothing was recorded."""
        if not end.recorded:
            return None
        self.result = result_from(end)
        return self.result

    def printed(self, rank: int) -> str:
        """All that a rank printed in the last cell. A notebook shows only the beginning and the end."""
        if not 0 <= rank < len(self):
            raise OptionError(f"there is no rank {rank}", hint=f"the ranks are 0 to {len(self) - 1}")
        return self._session.printed.text(rank)

    def push(self, **values: Any) -> None:
        """Give variables of this process to all ranks. Raises OptionError that names each which cannot be pickled."""
        self._session.push(_pickle_together(values), list(values))

    def __getitem__(self, expression: str) -> list[Any]:
        """The value of a variable, or of an expression, in each rank; tensors of devices come on the CPU."""
        return [pickle.loads(value) for value in self._session.pull(expression)]

    def restart(self) -> None:
        """New processes in place of these; their variables are lost, and set-up cells run again.

        These end when the new ones are there: a start that fails or is interrupted ends nothing.
        """
        before, self._session = self._session, self._start()
        _current[:] = [self]
        before.close()
        self.set_up()

    def set_up(self) -> None:
        """Run the set-up cells of the notebook in these ranks, which are new. Raises RanksError where one fails."""
        for source in _setup_cells.values():
            raise_failure(self.run_cell(source, show=False))

    def stop(self) -> None:
        """End the processes."""
        self._session.close()
        if _current[:1] == [self]:
            _current.clear()

    @property
    def running(self) -> bool:
        """Whether the processes were started and not stopped. Some may have ended by themselves."""
        return bool(self._session.peers)

    def status(self) -> str:
        """A line for each rank: its process, its memory and its state."""
        return _status(self._session) if self.running else "no ranks are running; %%ranks -n 4 starts some"

    def _start(self, shown: Outputs | None = None) -> Session:
        settings = self._settings
        if self.cluster:
            return Session(settings, shown or outputs(), driver=cluster_from(self.cluster))
        has_gpu = any(Path(node).exists() for node in ("/dev/nvidia0", "/dev/kfd", "/dev/dxg"))  # without asking CUDA
        with_sim = settings.device == "sim" or (settings.device == "auto" and not has_gpu)
        return Session(settings, shown or outputs(), (*PRELOAD, *FOR_SIM) if with_sim else PRELOAD)

    def __enter__(self) -> Ranks:  # noqa: PYI034 - typing.Self needs Python 3.11
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return self.status()


def check_device(device: str, clock: str) -> None:
    """Raise OptionError for a device or a clock that there is not, and for a device without that clock."""
    if device not in DEVICES:
        raise OptionError(f"device kind {device!r} is not known", hint="one of " + ", ".join(DEVICES))
    if clock not in ("", *CLOCKS):
        raise OptionError(f"clock {clock!r} is not known", hint=" or ".join(CLOCKS))
    if clock == "virtual" and device in ("cuda", "cpu"):
        raise OptionError(f"{device} has no virtual clock", hint="--device sim --clock virtual")


def check_code(where: str, what: str, code: object) -> None:
    """Raise OptionError for code that is not text: ranks have variables of their own, so a function cannot be sent."""
    if not isinstance(code, str):
        calls = {"run": 'perfmagic.ranks(4).run("step()")', "sweep_ranks": 'perfmagic.sweep_ranks("step()", [1, 2, 4])'}
        message = f"{where}: {what} is needed as text, not {code!r} ({type(code).__name__})"
        raise OptionError(message, hint=f"{calls[where]}, where a %%ranks --setup cell has defined step")


def keep_as_setup(cell: str, source: str) -> None:
    """Run this source first in all ranks that start from now on.

    cell: its id. A cell that was edited and run again replaces its earlier source.
    """
    _setup_cells.pop(cell, None)
    _setup_cells[cell] = source


def forget_setup() -> None:
    """Run no set-up cells any more."""
    _setup_cells.clear()


def current() -> Ranks | None:
    """The ranks that run, None where there are none."""
    return _current[0] if _current else None


def replace_current(ranks: Ranks) -> None:
    """Make these the current ranks, and end those before them."""
    before, _current[:] = current(), [ranks]
    if before is not None:
        before.stop()


_current: list[Ranks] = []
_setup_cells: dict[str, str] = {}  # by cell, in the order in which they ran last


_owner_pid = os.getpid()


def end_all() -> None:
    """End the ranks that run, and the processes that start them."""
    if os.getpid() != _owner_pid:  # a fork of the notebook ends: the ranks are not its own
        return
    while _current:
        _current[0].stop()
    close_drivers()
    cluster = sys.modules.get("perfmagic.capture.ranks.cluster")
    if cluster is not None:
        cluster.close_all()


def end_for_unload() -> None:
    """End the ranks, and print how many had variables that are lost."""
    running = current()
    end_all()
    if running is not None:
        _print_message(f"perfmagic: {plural(len(running), 'rank')} ended, and their variables with them")


atexit.register(end_all)


DEFAULT_RANKS = 2
LOCAL = "local"  # in place of a cluster's name: this machine


_FORM = 'the number of processes; code follows as text: perfmagic.ranks(4).run("step()")'


@keywords(RanksOptions, form=_FORM)
def ranks(n: int | None = None, **options: Unpack[RanksOptions]) -> Ranks:
    """How does code behave in several processes? Those that %%ranks runs its cells in; they are started where needed.

    n (None): how many; None for those that run, else two, or one for each engine of a cluster.
    Others in number, device, backend or cluster than those that run replace them: their variables are lost, and cells
    that ran with `%%ranks --setup` run again. Where the others cannot start, those that run stay as they are.
    Raises OptionError for a device or number that does not exist, CaptureError where they cannot be started.
    """
    return Request.for_options(n, options).start()


@dataclass(frozen=True)
class Request:
    """Which ranks are requested.  running: those that run and fit, None where others have to start."""

    world: int
    device: str
    backend: str
    clock: str
    cluster: str
    running: Ranks | None

    @classmethod
    def for_options(cls, n: int | None, options: RanksOptions) -> Request:
        """What a call or a cell requests. Starts and ends nothing.

        Raises OptionError for a number of ranks or a device that does not exist.
        """
        device, backend, cluster = options["device"], options["backend"], options["cluster"]
        clock = options["clock"]
        if n is not None and not (type(n) is int and 1 <= n <= MOST_RANKS):
            hint = _FORM if callable(n) else "%%ranks -n 4 or perfmagic.ranks(4)"
            raise OptionError(f"{n!r} ranks: 1 to {MOST_RANKS} processes", hint=hint)
        check_device(device, clock)
        running = current()
        running = running if running is not None and running.running else None
        where = "" if cluster == LOCAL else cluster or (running.cluster if running is not None else "")
        before = running.settings if running is not None and running.cluster == where else None
        if (
            before
            and n in (None, before.world)
            and device in ("auto", before.device)
            and backend in ("", before.backend)
            and (clock != "virtual" or (running is not None and running.device == "sim"))
        ):
            return cls(before.world, before.device, before.backend, clock, where, running)
        engines = len(cluster_from(where).engines) if where else DEFAULT_RANKS
        clock = clock or (before.clock if before else "")
        return cls(n or (before.world if before else min(engines, MOST_RANKS)), device, backend, clock, where, None)

    @property
    def ends(self) -> Ranks | None:
        """The running ranks that the requested ones would replace."""
        return current() if self.running is None else None

    def start(self) -> Ranks:
        """The requested ranks, started where they do not run. Raises CaptureError where they cannot be started."""
        if self.running is not None:
            self.running.keep_clock(self.clock)
            return self.running
        ranks = Ranks(settings_for(self.world, self.device, self.backend, self.clock), cluster=self.cluster)
        if self.ends is None:
            replace_current(ranks)
            ranks.set_up()
        else:
            self._set_up_beside(ranks, self.ends)
            replace_current(ranks)
        return ranks

    def _set_up_beside(self, ranks: Ranks, before: Ranks) -> None:
        try:
            ranks.set_up()
        except BaseException as error:  # an interrupt too
            ranks.stop()
            if isinstance(error, RanksError):
                stay = f"a set-up cell failed in the new ranks; the {plural(len(before), 'rank')} before them still run"
                error.message += f"\n{stay}. %ranks stop ends them, %ranks forget drops the set-up cells"
            raise
