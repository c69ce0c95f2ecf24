"""perfmagic.ranks(n): which processes are requested, and whether the running ones fit.

Running ranks end only when their successors have started and are set up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmagic.api.options import DEVICES, RanksOptions, keywords
from perfmagic.api.ranks.session import MOST_RANKS, Ranks, cluster_from, current, replace_current, settings_for
from perfmagic.base.errors import OptionError, RanksError
from perfmagic.base.units import plural

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEFAULT_RANKS = 2
LOCAL = "local"  # in place of a cluster's name: this machine


_FORM = 'the number of processes; code follows as text: perfmagic.ranks(4).run("step()")'


@keywords(RanksOptions, form=_FORM)
def ranks(n: int | None = None, **options: Unpack[RanksOptions]) -> Ranks:
    """How does code behave in several processes? Those that %%ranks runs its cells in; they are started where needed.

    n (None): how many; None for those that run, else two, or one for each engine of a cluster.
    Others in number, device, backend or cluster than those that run replace them: their variables are lost, and cells
    that ran with `%%ranks --setup` run again. Where the others cannot start, those that run stay as they are.
    Raises OptionError for what there is not, CaptureError where they cannot be started.
    """
    return Request.for_options(n, options).start()


@dataclass(frozen=True)
class Request:
    """Which ranks are requested.  running: those that run and fit, None where others have to start."""

    world: int
    device: str
    backend: str
    cluster: str
    running: Ranks | None

    @classmethod
    def for_options(cls, n: int | None, options: RanksOptions) -> Request:
        """What a call or a cell requests. Starts and ends nothing.

        Raises OptionError for a number of ranks or a device that does not exist.
        """
        device, backend, cluster = options["device"], options["backend"], options["cluster"]
        if n is not None and not (type(n) is int and 1 <= n <= MOST_RANKS):
            hint = _FORM if callable(n) else "%%ranks -n 4 or perfmagic.ranks(4)"
            raise OptionError(f"{n!r} ranks: 1 to {MOST_RANKS} processes", hint=hint)
        if device not in DEVICES:
            raise OptionError(f"device kind {device!r} is not known", hint="one of " + ", ".join(DEVICES))
        running = current()
        running = running if running is not None and running.running else None
        where = "" if cluster == LOCAL else cluster or (running.cluster if running is not None else "")
        before = running.settings if running is not None and running.cluster == where else None
        if (
            before
            and n in (None, before.world)
            and device in ("auto", before.device)
            and backend in ("", before.backend)
        ):
            return cls(before.world, before.device, before.backend, where, running)
        engines = len(cluster_from(where).engines) if where else DEFAULT_RANKS
        return cls(n or (before.world if before else min(engines, MOST_RANKS)), device, backend, where, None)

    @property
    def ends(self) -> Ranks | None:
        """The running ranks that the requested ones would replace."""
        return current() if self.running is None else None

    def start(self) -> Ranks:
        """The requested ranks, started where they do not run. Raises CaptureError where they cannot be started."""
        if self.running is not None:
            return self.running
        ranks = Ranks(settings_for(self.world, self.device, self.backend), cluster=self.cluster)
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
