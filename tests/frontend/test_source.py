"""The front end's own tests, and that the committed module is what its source builds. Needs node and npm."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


FRONTEND = Path(__file__).resolve().parents[2] / "perfmagic" / "frontend"


@pytest.fixture(scope="module")
def npm() -> str:
    """npm, with the pinned tools installed."""
    found = shutil.which("npm")
    if found is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed (apt-get install nodejs npm)")
    lock, stamp = FRONTEND / "package-lock.json", FRONTEND / "node_modules" / ".package-lock.json"
    if not stamp.exists() or stamp.stat().st_mtime < lock.stat().st_mtime:
        # not `npm ci`, which refuses a lock file made where the packages of other systems could not be had
        command = [found, "install", "--no-save", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=FRONTEND, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-2000:]
    return found


@pytest.mark.timeout(500)
@pytest.mark.parametrize("script", ["check", "types", "lint", "test"])
def test_the_front_end(npm: str, script: str) -> None:
    done = subprocess.run([npm, "run", "--silent", script], cwd=FRONTEND, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
