"""Python processes forked from one that has imported torch: each would spend seconds of CPU on imports alone.

As a program it is the server: it forks until its socket closes. A fork ends as any Python process does.
"""

import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from perfmagic.capture.ranks.settings import ONE_THREAD

# DistributedDataParallel and optimizers import the last: half of the time
PRELOAD = ("perfmagic.cli", "perfmagic.api.ranks.scripts", "perfmagic.sim.groups", "torch.nn.parallel", "torch._dynamo")
MESSAGE_BYTES = 131_072  # the most that Linux takes by default is above it
END_S = 60


class Server:
    """The tests' end of it. It ends with the process that made it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **ONE_THREAD},
                stdin=subprocess.DEVNULL,
                cwd=Path(__file__).resolve().parents[1],
            )
        n_threads = self.ask({"do": "import"})
        assert n_threads == 1, "a lock that another thread held would never be released in a fork"

    def ask(self, request: dict[str, Any], fds: Sequence[int] = ()) -> Any:
        socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        return json.loads(self._socket.recv(MESSAGE_BYTES))


@functools.cache
def server() -> Server:
    return Server()


class Forked:
    """A process as subprocess.Popen has it, with text in its pipes."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.returncode: int | None = None
        pipes = os.pipe(), os.pipe()
        request = {"do": "fork", "arguments": [*arguments], "environment": {**environment}}
        self.pid = int(server().ask(request, [write for _, write in pipes]))
        for _, write in pipes:
            os.close(write)
        self.stdout, self.stderr = (os.fdopen(read, encoding="utf-8") for read, _ in pipes)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = server().ask({"do": "poll", "pid": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        until_s = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until_s:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.01)
        return code

    def kill(self) -> None:
        if self.poll() is None:  # not reaped yet, so no other process has its number
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self, timeout: float = END_S) -> tuple[str, str]:
        """What it prints until it ends; after the timeout it is killed."""
        limit = threading.Timer(timeout, self.kill)
        limit.start()
        with ThreadPoolExecutor(2) as pool:
            out, err = pool.map(lambda pipe: pipe.read(), (self.stdout, self.stderr))
        limit.cancel()
        self.wait(END_S)
        return out, err


def started(
    arguments: Sequence[str], environment: Mapping[str, str], *, fork: bool = sys.platform == "linux"
) -> Forked | subprocess.Popen[str]:
    """A process with what follows `python`."""
    if fork:
        return Forked(arguments, environment)
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def serve(control: socket.socket) -> dict[str, Any]:
    """Answer until the socket closes, which ends the process; in a fork, return the request for it."""
    while True:
        message, fds, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 2)
        if not message:
            sys.exit()
        request: dict[str, Any] = json.loads(message)
        answer: int | None
        if request["do"] == "import":
            for name in PRELOAD:
                importlib.import_module(name)
            gc.freeze()  # a collection in a fork would write to every page that they share
            answer = len(list(Path("/proc/self/task").iterdir()))
        elif request["do"] == "poll":
            pid, status = os.waitpid(request["pid"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif answer := os.fork():
            for fd in fds:
                os.close(fd)
        else:
            control.close()
            return {**request, "fds": fds}
        control.send(json.dumps(answer).encode())


def run(request: dict[str, Any]) -> None:
    """What `python` does with these arguments, in this environment, printing into these pipes."""
    for number, fd in enumerate(request["fds"], 1):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["environment"])
    first, *arguments = request["arguments"]
    if first == "-m":
        module, *sys.argv[1:] = arguments
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = [first, *arguments]
        sys.path[0] = str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    run(serve(socket.socket(fileno=int(sys.argv[1]))))
