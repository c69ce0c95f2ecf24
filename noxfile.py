"""The tests of `make quick` on every Python promised, with the oldest and the newest of what is required.

make matrix, or one session of it: nox -s "tests-3.13(newest, plain)"

oldest  what constraints-floor.txt pins; on 3.10 and 3.11, as IPython 7.34 came before 3.12
newest  what pip finds today; `make test` runs with the pins of constraints-dev.txt instead
plain   without torch: reading traces, analyses, pictures, magics up to the device, the server
torch   with a build of torch without CUDA, which is a tenth of the size: 2.10, the oldest promised, or the newest tried

An interpreter that is not there skips its sessions, and so does a build of torch that pip does not find. Such builds
have a version of their own, which no index but torch's has: name a place in PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL.

Run in November 2026 on Linux: plain on 3.10.13 (oldest and newest), 3.12.1 and 3.13.0 (newest); torch 2.13.0 on 3.11.7
(newest). Not run: torch on 3.10, 3.12 and 3.13, and torch 2.10, of which no build without CUDA was at hand; 3.14,
Windows, macOS. `make floor` runs the shell's tests with the oldest versions and torch 2.13.0 on 3.11.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import nox
from nox.command import CommandFailed

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
OLDEST_ON = ("3.10", "3.11")
TORCH = {"oldest": "2.10.0+cpu", "newest": "2.13.0+cpu"}
TESTS = ("-q", "-n", "auto", "--dist", "loadgroup", "-p", "no:cacheprovider")
QUICK = ("-m", "not (browser or gpu or slow or interrupts)", "--ignore=tests/kernel", "--ignore=tests/browser", "tests")

# pyenv's stand-ins start only the version that is set; the interpreters themselves are in folders of their own
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
os.environ["PATH"] = os.pathsep.join([*(str(path) for path in sorted(PYENV.glob("3.*/bin"))), os.environ["PATH"]])

nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"


@nox.session(python=PYTHONS, download_python="never")
@nox.parametrize("torch", [False, True], ids=["plain", "torch"])
@nox.parametrize("versions", ["oldest", "newest"], ids=["oldest", "newest"])
def tests(session: nox.Session, versions: str, torch: bool) -> None:
    """One environment of the table."""
    if versions == "oldest" and session.python not in OLDEST_ON:
        session.skip(f"the oldest versions do not run on Python {session.python}")
    if torch:
        with_torch(session, TORCH[versions])
    floor = floor_without_torch(session) if versions == "oldest" else ()
    session.install("pip>=25.1")  # which knows dependency groups
    session.install("--editable", ".", "--group", "plain", *floor)
    session.run("python", "-m", "pytest", *TESTS, *(session.posargs or QUICK), env={"PERFMAGIC_DISPLAY": "static"})


def with_torch(session: nox.Session, version: str) -> None:
    """Install a build without CUDA. Skips the session where pip finds none, rather than take one with CUDA."""
    try:
        session.install(f"torch=={version}")
    except CommandFailed:
        session.skip(f"pip finds no torch {version} for Python {session.python}")


def floor_without_torch(session: nox.Session) -> tuple[str, str]:
    """Options for pip: the oldest of what is required. Which torch it is this file says."""
    pins = Path("constraints-floor.txt").read_text("utf-8")
    path = Path(session.create_tmp(), "floor.txt")
    path.write_text(re.sub(r"^torch==.*$", "", pins, flags=re.MULTILINE), "utf-8")
    return "--constraint", str(path)
