"""A virtual clock needs no thread, so that it would also run where none can be started, as in a browser."""

import subprocess
import sys
from textwrap import dedent

import pytest

pytest.importorskip("torch", reason="the simulated device needs torch")
pytestmark = pytest.mark.slow

REFUSE = """
def start(*_, **__):
    raise RuntimeError("can't start new thread")

threading.Thread.start = _thread.start_new_thread = start
"""
COUNT = """
started, plain = [], threading.Thread.start

def start(thread):
    started.append(thread.name)
    plain(thread)

threading.Thread.start = start
"""
PROGRAM = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import torch

import perfmagic
from perfmagic.changes import faster

config = Config()
config.HistoryManager.enabled = False  # IPython's own thread
shell = InteractiveShell.instance(config=config)
shell.run_line_magic("load_ext", "perfmagic")
device = perfmagic.device(clock="virtual", pace="mm=50us")
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
optimizer = torch.optim.AdamW(net.parameters())
batch = torch.ones(4, 8)

def step():
    optimizer.zero_grad()
    loss = net(batch.to(device)).sum()
    loss.backward()
    optimizer.step()
    return loss.item()

shell.push({"step": step})
with perfmagic.timeline(memory=True) as timeline:
    step()
assert timeline.result.what_if(faster("mm", 2)).prediction.expected_ns
assert perfmagic.compare(step, step)
with perfmagic.Benchmark():
    step()
for magic in ("timeline", "timeline --memory", "bench --runs 3", "syncbench --runs 3", "memory", "graph"):
    shell.run_cell(f"%%{magic} -o result\\nstep()").raise_error()
    assert shell.user_ns.pop("result") is perfmagic.last(), magic
"""


def run(before: str, after: str = "") -> str:
    program = "import _thread\nimport threading\n" + before + dedent(PROGRAM) + after
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_a_step_is_measured_where_no_thread_can_be_started() -> None:
    run(REFUSE)


def test_no_thread_is_started_where_one_could_be() -> None:
    assert run(COUNT, "print('started:', started)").splitlines()[-1] == "started: []"
