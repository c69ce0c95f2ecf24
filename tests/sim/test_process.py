"""Import, fork and the end of a process, each in a process of its own."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("torch", reason="the simulated device needs torch")

_WAIT_S = 300  # nothing is timed: only a process that hangs gets there


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=_WAIT_S, check=False)


def test_importing_the_package_imports_no_torch() -> None:
    loaded = "[name for name in ('torch', 'perfmagic.trace') if name in sys.modules]"
    done = _run(f"import sys, perfmagic.sim as s; print({loaded}, s.loaded(), s.devices_in_use())")
    assert done.stdout.split() == ["[]", "False", "()"], done.stderr


_FORK = """
import os, signal, torch
from perfmagic import sim
from perfmagic.base.errors import DeviceError
sim.load()
a = torch.ones(4, device="sim")
sim.synchronize()
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    for use in (lambda: a + 1, lambda: torch.ones(2, device="sim"), sim.synchronize, torch.sim.Event().record):
        try:
            use()
        except DeviceError as error:
            assert "forked" in str(error) and error.hint
        else:
            os._exit(3)
    torch.manual_seed(1)
    os._exit(0 if (torch.ones(2) + 1).sum() == 4 else 4)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), (a + 1).sum().item())
torch.sim._sleep(1e4)
for _ in range(100):
    a.add_(1)
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system cannot fork")
def test_a_fork_gets_one_clear_error_and_a_process_with_queued_work_ends_cleanly() -> None:
    done = _run(_FORK)
    assert done.stdout.split() == ["0", "8.0"], done.stderr
    assert (done.returncode, done.stderr) == (0, "")
