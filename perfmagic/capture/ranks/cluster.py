"""Ranks on the engines of an ipyparallel cluster that runs: one beside each engine.

The notebook talks to a rank as to one of its own machine, over a socket; threads pass what goes through it on to the
engine, and what the engine publishes back. Only ipyparallel's own connections are used.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from perfmagic.capture.ranks.drivers import Started
from perfmagic.capture.ranks.engine import Call
from perfmagic.capture.ranks.engine_line import EngineLine
from perfmagic.capture.ranks.settings import LOOPBACK, boot
from perfmagic.capture.ranks.wire import Wire
from perfmagic.errors import CaptureError, OptionError

_AHEAD_NS = 50_000_000  # a call of an idle engine took 5 to 20 ms on a busy machine
_CONNECT_S = 10.0
_CALL_S = 60.0


class Cluster:
    """Starts ranks on engines, a Driver.  name: a profile, a cluster id, PROFILE/ID, or a connection file.

    Raises CaptureError where ipyparallel is missing or no controller answers, OptionError for a name of nothing.
    """

    ahead_ns = _AHEAD_NS

    def __init__(self, name: str) -> None:
        self.name = name
        ipyparallel = _ipyparallel()
        file = connection_file(name)
        try:
            self._client = ipyparallel.Client(str(file), timeout=_CONNECT_S)
        except Exception as error:
            words = f"the cluster {name} does not answer: {type(error).__name__}: {error}"
            raise CaptureError(words, hint=f"is its controller running? {file} says where it should be") from error
        self.engines: list[int] = list(self._client.ids)
        self._found: list[dict[str, Any]] = []

    @property
    def how(self) -> str:
        """Where the ranks are, in words."""
        return f"each beside an engine of the ipyparallel cluster {self.name}"

    @property
    def apart(self) -> bool:
        """Whether the ranks are of several hosts."""
        return len({found["boot"] or found["host"] for found in self._found}) > 1

    @property
    def address(self) -> str:
        """Where rank 0 listens: for its own machine alone, if all ranks are there."""
        if not self.apart:
            return LOOPBACK
        address = self._found[0]["address"]
        if not address:
            raise CaptureError(f"the host of engine {self.engines[0]}, {self._found[0]['host']}, has no address")
        return str(address)

    def prepare(self, world: int) -> None:
        """Look at the engines that ranks will be started on. Raises where they are too few, or cannot run them."""
        self.engines = list(self._client.ids)
        if len(self.engines) < world:
            raise OptionError(
                f"{world} ranks need as many engines; the cluster {self.name} has {len(self.engines)}",
                hint=f"%%ranks -n {len(self.engines)} --cluster {self.name}" if self.engines else "start some engines",
            )
        self._found = [self._call(i, "look") for i in range(world)]
        ours = sys.modules["perfmagic"].__version__
        for engine, found in zip(self.engines, self._found, strict=False):
            if found["version"] != ours:
                words = f"engine {engine} on {found['host']} has perfmagic {found['version']}, the notebook has {ours}"
                raise CaptureError(words, hint="install the same version in both")
            if not (found["torch"] and found["posix"]):
                words = f"engine {engine} on {found['host']} has no torch" if found["posix"] else "engines need POSIX"
                raise CaptureError(words, hint="pip install torch where the engines run")

    def start(self, rank: int, world: int, program: str) -> Started:
        """One rank, beside the engine of that number in order."""
        if rank == 0 or len(self._found) < world:
            self.prepare(world)
        key, line = uuid4().hex, EngineLine(self._sender(rank))
        self._listen(key, line)
        sender = self._client.session.session
        pid = self._call(rank, "start", key, rank, world, program, self._variables(rank, world), sender)
        line.begin(key, lambda: self.engines[rank] in self._client.ids, lambda: self._forget(key))
        return _OnEngine(
            rank, pid, Wire(line.ours), line.output, line.exit_code,
            engine=f"engine {self.engines[rank]} on {self._found[rank]['host']}",
            elsewhere=not boot() or self._found[rank]["boot"] != boot(),
            end=lambda: self._send(rank, "kill", key),
        )  # fmt: skip

    def close(self) -> None:
        """Leave the cluster, whose engines live on."""
        self._client.close(linger=0)

    def _variables(self, rank: int, world: int) -> dict[str, str]:
        """torchrun's variables. LOCAL_RANK counts the ranks of one host that see the same GPUs."""
        place = [(found["host"], found["boot"], found["visible"]) for found in self._found[:world]]
        hosts = list(dict.fromkeys(place))
        return {
            "LOCAL_RANK": str(place[:rank].count(place[rank])),
            "LOCAL_WORLD_SIZE": str(place.count(place[rank])),
            "GROUP_RANK": str(hosts.index(place[rank])),
            "MASTER_ADDR": self.address,
        }

    def _sender(self, rank: int) -> Callable[..., None]:
        return lambda name, *args: self._send(rank, name, *args)

    def _send(self, rank: int, name: str, *args: Any) -> None:
        """Call a function of an engine, and do not wait for it; nothing where the engine is gone."""
        with suppress(Exception):  # whatever the client says of an engine that has left
            self._client[self.engines[rank]].apply_async(Call(name), *args)

    def _listen(self, key: str, line: EngineLine) -> None:
        """Take what an engine publishes under a key: as of a call of ours that goes on until _forget()."""
        client = self._client
        client._futures[key] = SimpleNamespace(iopub_callbacks=[lambda _: line.came(client.metadata[key]["data"])])

    def _forget(self, key: str) -> None:
        for kept in (self._client._futures, self._client.metadata):
            kept.pop(key, None)

    def _call(self, rank: int, name: str, *args: Any) -> Any:
        """Call a function of an engine, and wait for what it gives."""
        engine = self.engines[rank]
        try:
            return self._client[engine].apply_async(Call(name), *args).get(timeout=_CALL_S)
        except Exception as error:
            words = f"engine {engine} of {self.name} could not run perfmagic: {type(error).__name__}: {error}"
            hint = "install perfmagic and torch where the engines run; an engine that runs a %%px cell has to end it"
            raise CaptureError(words.partition("\n")[0], hint=hint) from error


class _OnEngine(Started):
    """A rank beside an engine."""

    def __init__(self, *args: Any, end: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._end = end

    def kill(self) -> None:
        self._end()


def cluster_named(name: str) -> Cluster:
    """What starts ranks on the engines of a cluster, with one connection. Raises as Cluster does."""
    file = connection_file(name)
    key = (name, file.stat().st_mtime_ns)  # a cluster that was started again writes its file anew
    if key not in _clusters:
        _clusters[key] = Cluster(name)
    return _clusters[key]


def close_all() -> None:
    """Leave all clusters."""
    while _clusters:
        _clusters.popitem()[1].close()


_clusters: dict[tuple[str, int], Cluster] = {}


def connection_file(name: str) -> Path:
    """The client's connection file of a cluster. Raises OptionError where there is none, or several may be meant.

    name: the file itself, a profile, a cluster id of the default profile, or PROFILE/ID.
    """
    if Path(name).expanduser().is_file():
        return Path(name).expanduser()
    home = Path(os.environ.get("IPYTHONDIR") or "~/.ipython").expanduser()
    profile, _, cluster = name.partition("/")
    tried = [home / f"profile_{profile}" / "security" / f"ipcontroller-{cluster}-client.json"] if cluster else [
        home / f"profile_{name}" / "security" / "ipcontroller-client.json",
        home / "profile_default" / "security" / f"ipcontroller-{name}-client.json",
    ]  # fmt: skip
    for file in tried:
        if file.is_file():
            return file
    running = sorted((home / f"profile_{name}" / "security").glob("ipcontroller-*-client.json"))
    if len(running) == 1:
        return running[0]
    if running:
        ids = [file.name.removeprefix("ipcontroller-").removesuffix("-client.json") for file in running]
        hint = "one of " + ", ".join(f"--cluster {name}/{one}" for one in ids)
        raise OptionError(f"the profile {name} has {len(running)} clusters", hint=hint)
    where = " nor ".join(str(file) for file in tried)
    hint = "ipcluster start -n 4 starts one for the profile default; or give its ipcontroller-client.json"
    raise OptionError(f"no cluster {name!r}: there is neither a file of that name nor {where}", hint=hint)


def _ipyparallel() -> Any:
    try:
        return importlib.import_module("ipyparallel")
    except ImportError:
        words = "--cluster needs ipyparallel, which is not installed"
        raise CaptureError(words, hint="pip install 'perfmagic[cluster]', here and where the engines run") from None
