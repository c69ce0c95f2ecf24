"""Ranks on the engines of an ipyparallel cluster that runs: one beside each engine.

The notebook talks to a rank as to one of its own machine, over a socket; threads pass what goes through it on to the
engine, and what the engine publishes back. Only ipyparallel's own connections are used.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from perfmagic.base.errors import CaptureError, OptionError
from perfmagic.capture.ranks.connection import Connection
from perfmagic.capture.ranks.drivers import Started
from perfmagic.capture.ranks.engine import END, OUTPUT, Call
from perfmagic.capture.ranks.settings import LOOPBACK, boot

# What goes between the notebook and a rank beside an engine: over a socket here, in calls and publications there.

_BEAT_S = 10.0  # an engine ends its rank when it hears nothing for a minute
_LOOK_S = 1.0
_BYTES = 1 << 20


class EngineLine:
    """Relays messages between a socket and an engine.  ours: the notebook's end.  output: what C++ prints."""

    def __init__(self, send: Callable[..., None]) -> None:
        self._send = send
        self.ours, self._theirs = socket.socketpair()
        self.output, self._output = os.pipe()
        self._came: SimpleQueue[tuple[int, str, bytes]] = SimpleQueue()
        self._code: int | None = None
        self._ended = threading.Event()

    def begin(self, key: str, there: Callable[[], bool], ended: Callable[[], None]) -> None:
        """Pass on both ways, until either end closes.  there: whether the engine still belongs to the cluster."""
        whats: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (self._out, (key,)), (self._beat, (key,)), (self._in, (there, ended)),
        ]  # fmt: skip
        for what, args in whats:
            threading.Thread(target=what, args=args, name=f"ranks: {what.__name__}", daemon=True).start()

    def came(self, data: dict[str, Any]) -> None:
        """Called by the client's thread for each message of the engine; data: the last one's."""
        if "channel" in data:
            self._came.put((data.pop("n"), data.pop("channel"), bytes(data.pop("data"))))

    def exit_code(self) -> int | None:
        return self._code

    def _out(self, key: str) -> None:
        with suppress(OSError):
            while some := self._theirs.recv(_BYTES):
                self._send("send", key, some)
        if not self._ended.is_set():
            self._send("kill", key)  # the notebook has closed its end: the rank has had its time
        self._ended.set()

    def _beat(self, key: str) -> None:
        while not self._ended.wait(_BEAT_S):
            self._send("send", key, b"")

    def _in(self, there: Callable[[], bool], ended: Callable[[], None]) -> None:
        expected = 0
        while True:
            try:
                number, channel, data = self._came.get(timeout=_LOOK_S)
            except Empty:
                if not there() or self._ended.is_set():
                    break
                continue
            if number != expected:  # the stream has a hole: nothing that follows can be read
                break
            expected += 1
            if channel == END:
                self._code = int(data) if data else None
                break
            with suppress(OSError):
                if channel == OUTPUT:
                    os.write(self._output, data)
                else:
                    self._theirs.sendall(data)
        self._ended.set()
        ended()
        os.close(self._output)
        with suppress(OSError):
            self._theirs.shutdown(socket.SHUT_RDWR)
        self._theirs.close()


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
            message = f"the cluster {name} does not answer: {type(error).__name__}: {error}"
            raise CaptureError(message, hint=f"is its controller running? {file} says where it should be") from error
        self.engines: list[int] = list(self._client.ids)
        self._hosts: list[dict[str, Any]] = []

    @property
    def how(self) -> str:
        """Where the ranks are, in words."""
        return f"each beside an engine of the ipyparallel cluster {self.name}"

    @property
    def apart(self) -> bool:
        """Whether the ranks are of several hosts."""
        return len({host["boot"] or host["host"] for host in self._hosts}) > 1

    @property
    def address(self) -> str:
        """Where rank 0 listens: for its own machine alone, if all ranks are there."""
        if not self.apart:
            return LOOPBACK
        address = self._hosts[0]["address"]
        if not address:
            raise CaptureError(f"the host of engine {self.engines[0]}, {self._hosts[0]['host']}, has no address")
        return str(address)

    def prepare(self, world: int) -> None:
        """Look at the engines that ranks will be started on. Raises where they are too few, or cannot run them."""
        self.engines = list(self._client.ids)
        if len(self.engines) < world:
            raise OptionError(
                f"{world} ranks need as many engines; the cluster {self.name} has {len(self.engines)}",
                hint=f"%%ranks -n {len(self.engines)} --cluster {self.name}" if self.engines else "start some engines",
            )
        self._hosts = [self._call(engine, "look") for engine in self.engines[:world]]
        ours = sys.modules["perfmagic"].__version__
        for engine, host in zip(self.engines, self._hosts, strict=False):
            if host["version"] != ours:
                message = f"engine {engine} on {host['host']} has perfmagic {host['version']}, the notebook has {ours}"
                raise CaptureError(message, hint="install the same version in both")
            if not (host["torch"] and host["posix"]):
                message = f"engine {engine} on {host['host']} has no torch" if host["posix"] else "engines need POSIX"
                raise CaptureError(message, hint="pip install torch where the engines run")

    def start(self, rank: int, world: int, program: str) -> Started:
        """One rank, beside the engine of that number in order."""
        if rank == 0 or len(self._hosts) < world:
            self.prepare(world)
        engine = self.engines[rank]  # the list is another one when other ranks have started
        key, line = uuid4().hex, EngineLine(self._sender(engine))
        self._listen(key, line)
        sender = self._client.session.session
        pid = self._call(engine, "start", key, rank, world, program, self._variables(rank, world), sender)
        line.begin(key, lambda: engine in self._client.ids, lambda: self._forget(key))
        return _OnEngine(
            rank, pid, Connection(line.ours), line.output, line.exit_code,
            engine=f"engine {engine} on {self._hosts[rank]['host']}",
            elsewhere=not boot() or self._hosts[rank]["boot"] != boot(),
            end=lambda: self._send(engine, "kill", key),
        )  # fmt: skip

    def close(self) -> None:
        """Leave the cluster, whose engines live on."""
        self._client.close(linger=0)

    def _variables(self, rank: int, world: int) -> dict[str, str]:
        """torchrun's variables. LOCAL_RANK counts the ranks of one host that see the same GPUs."""
        place = [(host["host"], host["boot"], host["visible"]) for host in self._hosts[:world]]
        hosts = list(dict.fromkeys(place))
        return {
            "LOCAL_RANK": str(place[:rank].count(place[rank])),
            "LOCAL_WORLD_SIZE": str(place.count(place[rank])),
            "GROUP_RANK": str(hosts.index(place[rank])),
            "MASTER_ADDR": self.address,
        }

    def _sender(self, engine: int) -> Callable[..., None]:
        return lambda name, *args: self._send(engine, name, *args)

    def _send(self, engine: int, name: str, *args: Any) -> None:
        """Call a function of an engine, and do not wait for it; nothing where the engine is gone."""
        with suppress(Exception):  # whatever the client says of an engine that has left
            self._client[engine].apply_async(Call(name), *args)

    def _listen(self, key: str, line: EngineLine) -> None:
        """Receive what an engine publishes under a key, as for a pending call, until _forget()."""
        client = self._client
        client._futures[key] = SimpleNamespace(iopub_callbacks=[lambda _: line.came(client.metadata[key]["data"])])

    def _forget(self, key: str) -> None:
        for kept in (self._client._futures, self._client.metadata):
            kept.pop(key, None)

    def _call(self, engine: int, name: str, *args: Any) -> Any:
        """Call a function of an engine, and wait for what it gives."""
        try:
            return self._client[engine].apply_async(Call(name), *args).get(timeout=_CALL_S)
        except Exception as error:
            message = f"engine {engine} of {self.name} could not run perfmagic: {type(error).__name__}: {error}"
            hint = "install perfmagic and torch where the engines run; an engine that runs a %%px cell must finish it"
            raise CaptureError(message.partition("\n")[0], hint=hint) from error


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
    key = (name, file.stat().st_mtime_ns)  # a cluster that was started again rewrites its file
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
        hint = "one of " + ", ".join(f"--cluster {name}/{cluster_id}" for cluster_id in ids)
        raise OptionError(f"the profile {name} has {len(running)} clusters", hint=hint)
    where = " nor ".join(str(file) for file in tried)
    hint = "ipcluster start -n 4 starts one for the profile default; or give its ipcontroller-client.json"
    raise OptionError(f"no cluster {name!r}: there is neither a file of that name nor {where}", hint=hint)


def _ipyparallel() -> Any:
    try:
        return importlib.import_module("ipyparallel")
    except ImportError:
        message = "--cluster needs ipyparallel, which is not installed"
        raise CaptureError(message, hint="pip install 'perfmagic[cluster]', here and where the engines run") from None
