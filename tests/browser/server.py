"""A private Jupyter server with JupyterLab and Notebook 7 on a folder, knowing nothing of the user's settings."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

STARTS_WITHIN_S = 120
REPOSITORY = Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def jupyter_server(root: Path, private: Path, python: Path | None = None) -> Iterator[str]:
    """The address of a server that ends with the block.  root: the notebooks' folder.  private: where settings go.

    python: of another environment, which is used as it is installed; else this one's, with the working tree.
    """
    quiet = private / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))
    homes = {name: str(private / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    homes |= {"JUPYTER_RUNTIME_DIR": str(private / "runtime"), "JUPYTERLAB_SETTINGS_DIR": str(private / "settings")}
    homes |= {"JUPYTERLAB_WORKSPACES_DIR": str(private / "workspaces"), "PERFMAGIC_DISPLAY": "auto"}
    homes |= {"PYTHONPATH": ""} if python else extension_paths(private)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = (f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token=", "--no-browser")
    options += (f"--ServerApp.root_dir={root}", "--allow-root")
    options += ("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True")
    with (private / "log").open("w") as log:
        command = [str(python or sys.executable), "-m", "jupyterlab", *options]
        place = root if python else None  # where no working tree can be imported from
        server = subprocess.Popen(command, cwd=place, env={**os.environ, **homes}, stdout=log, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        if not _answers(address, server):
            raise RuntimeError(f"JupyterLab did not start: {(private / 'log').read_text()[-2000:]}")
        yield address
    finally:
        server.terminate()
        server.wait(20)


def extension_paths(private: Path) -> dict[str, str]:
    """Variables by which Jupyter finds the extension of this working tree, whatever is installed."""
    share = private / "share"  # a copy: Jupyter serves no links
    shutil.copytree(REPOSITORY / "perfmagic" / "labextension", share / "labextensions" / "perfmagic")
    found = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    return {
        "JUPYTER_PATH": str(share),
        "JUPYTER_CONFIG_PATH": str(REPOSITORY / "jupyter-config"),
        "PYTHONPATH": found,
    }


def _answers(address: str, server: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError):
            return bool(urllib.request.urlopen(f"{address}/api/status", timeout=2))
        time.sleep(0.3)
    return False
