"""Looking at what a rank's threads do changes nothing in what they do."""

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the simulated device needs torch")

STEPS = """
import threading
import torch
import perfmagic
from perfmagic.capture.ranks.service import Service

stop, service = threading.Event(), Service(None)  # nothing is sent
device = perfmagic.device("sim", clock="virtual")
model = torch.nn.Sequential(*(torch.nn.Conv2d(8, 8, 3, padding=1) for _ in range(10))).to(device)

def op_ends():
    model.zero_grad()
    with perfmagic.timeline() as timeline:
        model(torch.ones(8, 8, 24, 24, device=device)).sum().backward()
    return timeline.result.trace.ops.end_ns.tolist()

def look():
    while not stop.is_set():
        service.where()

alone = op_ends()
looks = [threading.Thread(target=look) for _ in range(2)]
for each in looks:
    each.start()
print(all(op_ends() == alone for _ in range(10)), flush=True)
stop.set()
for each in looks:
    each.join()
"""


@pytest.mark.slow
def test_gradients_are_not_copied_when_they_are_inspected() -> None:
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "True\n"  # in a process of its own, as a rank has
