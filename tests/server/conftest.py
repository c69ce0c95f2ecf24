"""A Jupyter server without JupyterLab on a folder of traces, and requests to it."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfmagic.results import TimelineResult
from tests.trace.recorded import real
from tests.view.ranks.build import ranks

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-secret-of-the-tests"
STARTS_WITHIN_S = 120


@dataclass(frozen=True)
class Answer:
    """status, headers, bytes."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        answer = json.loads(self.body)
        assert isinstance(answer, dict)
        return answer

    @property
    def header(self) -> dict[str, Any]:
        """The header of a timeline."""
        length = int.from_bytes(self.body[:4], "little")
        return dict(json.loads(self.body[4 : 4 + length]))


@dataclass(frozen=True)
class Server:
    """port: on this machine.  root: the folder that it serves.  temporary: where it puts temporary files."""

    port: int
    root: Path
    temporary: Path

    def ask(self, path: str, *, token: str = TOKEN, **headers: str) -> Answer:
        """GET without a wait for the reading."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            given["Authorization"] = f"token {token}"
        with contextlib.closing(connection):
            connection.request("GET", path, headers=given)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def cookie(self) -> str:
        """What a browser sends after logging in."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        with contextlib.closing(connection):
            connection.request("GET", f"/api/status?token={TOKEN}")
            given = connection.getresponse().headers.get_all("Set-Cookie", [])
        return "; ".join(cookie.split(";")[0] for cookie in given)

    def timeline(self, path: str) -> Answer:
        """The answer after the reading."""
        while (answer := self.ask(f"/perfmagic/timeline/{path}")).status == 202:
            pass
        return answer


Start = Callable[..., contextlib.AbstractContextManager[Server]]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Starts a server on a folder; options: lines of its configuration."""
    pytest.importorskip("jupyter_server", reason="jupyter_server is not installed")

    @contextlib.contextmanager
    def started(root: Path, *options: str) -> Iterator[Server]:
        private = tmp_path_factory.mktemp("jupyter")
        (private / "config").mkdir()
        (private / "temporary").mkdir()
        (private / "config" / "jupyter_server_config.py").write_text("\n".join(options))
        homes = {f"JUPYTER_{name}_DIR": str(private / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
        homes |= {"JUPYTER_CONFIG_PATH": str(ROOT / "jupyter-config"), "TMPDIR": str(private / "temporary")}
        homes |= {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
        command += ["--ServerApp.port=0", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}"]
        with (private / "log").open("w") as log:
            process = subprocess.Popen(command, env={**os.environ, **homes}, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield Server(_port(private / "runtime", process, private / "log"), root, private / "temporary")
        finally:
            process.terminate()
            process.wait(30)

    return started


def _port(runtime: Path, process: subprocess.Popen[bytes], log: Path) -> int:
    """The port that the server took; it writes it down when it listens."""
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        for server_file in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(ValueError, OSError):
                port = int(json.loads(server_file.read_text())["port"])
                socket.create_connection(("127.0.0.1", port), timeout=10).close()
                return port
        time.sleep(0.05)
    raise RuntimeError(f"no Jupyter server: {log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces, a damaged one, a job of four ranks, what must not be shown; beside the folder, another trace."""
    above = tmp_path_factory.mktemp("above")
    folder = above / "root"
    (folder / ".hidden").mkdir(parents=True)
    step = real("v100_4streams_nccl_step")
    for name in ("step.pt.trace.json.gz", "训练 #1 100%.json.gz", ".hidden/step.json.gz", "../outside.json.gz"):
        shutil.copy(step, folder / name)
    (folder / "empty.npz").touch()
    (folder / "other.json").write_text('{"a": 1}')
    (folder / "cut.json.gz").write_bytes(step.read_bytes()[:100])
    for name in ("run", "nothing"):
        (folder / name).mkdir()
    for number, trace in ranks(4).traces.items():
        TimelineResult(trace).save(folder / "run" / f"rank{number}.npz")
    (folder / "run" / ".rank9.npz").write_bytes(b"hidden from the file browser")
    return folder


@pytest.fixture(scope="session")
def server(start: Start, root: Path) -> Iterator[Server]:
    with start(root) as made:
        yield made
