"""Real signals at random moments of a cell, each followed by a second one 0.5 to 20 ms later.

    python -m tests.shell.random_signals TRIES SEED

A process of its own, as pytest's timeouts use the same timer. Prints a line for each magic, and what was wrong.
"""

import _weakrefset
import contextlib
import enum
import io
import random
import signal
import sys
import time
import traceback
import weakref
from types import FrameType

from .conftest import Notebook
from .interrupts import OURS, faults_after, own_temporary_files, state

SECOND_S = (0.5e-3, 20e-3)
# Python drops what is raised while an object goes, numpy what is raised while it asks an object what it is
DROPPED_IN = (weakref.__file__, _weakrefset.__file__, enum.__file__)
CELLS = (
    "%%timeline --device cpu\ny = x + 1",
    "%%timeline --device sim\ny = s + 1",
    "%%bench -r 2 -n 1 --warmup 0\ny = x + 1",
    "%%syncbench -r 2 -n 1 --warmup 0\ny = s + 1",
    "%compare f g -r 2 -n 1 --warmup 0",
    "with perfmagic.timeline(device='cpu'):\n    y = x + 1",
    "with perfmagic.timeline(device='sim'):\n    y = s + 1",
    "perfmagic.syncbench(lambda: s + 1, samples=2, calls=1, warmup=0)",
    "perfmagic.compare(f, g, samples=2, calls=1, warmup=0)",
)


class Signals:
    """Two KeyboardInterrupts, one after the other; none outside the cell and our own code, where IPython's begins."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._left = 0
        self.raised = 0
        self.struck: list[str] = []
        signal.signal(signal.SIGALRM, self._strike)

    def arm(self, first_s: float) -> None:
        self._left, self.raised, self.struck = 2, 0, []
        signal.setitimer(signal.ITIMER_REAL, first_s)

    def disarm(self) -> None:
        self._left = 0
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _strike(self, _number: int, frame: FrameType | None) -> None:
        if not self._left or not _interruptible(frame):
            return
        self._left -= 1
        if self._left:
            signal.setitimer(signal.ITIMER_REAL, self._rng.uniform(*SECOND_S))
        self.raised += 1
        self.struck += traceback.format_stack(frame)[-6:]
        raise KeyboardInterrupt


def _interruptible(frame: FrameType | None) -> bool:
    while frame is not None:
        name = frame.f_code.co_filename
        if name in DROPPED_IN:
            return False
        if name.startswith(OURS) or "ipython-input" in name or "/ipykernel_" in name:
            return True
        frame = frame.f_back
    return False


def run(notebook: Notebook, cell: str) -> BaseException | None:
    """Run a cell; what ended it."""
    try:
        result = notebook.shell.run_cell(cell)
    except KeyboardInterrupt as error:  # in a transformer: IPython lets it through
        return error
    return result.error_before_exec or result.error_in_exec


def main(tries: int, seed: int) -> None:
    """Interrupt each cell so often."""
    rng = random.Random(seed)
    notebook = Notebook()
    notebook.run("%load_ext perfmagic")
    notebook.run("import torch, perfmagic\nx = torch.ones(4)\ns = torch.ones(4, device=perfmagic.device('sim'))")
    notebook.run("def f():\n    return x + 1\ndef g():\n    return x + 2")
    signals = Signals(rng)
    for cell in CELLS:
        faults: list[str] = []
        once = twice = 0
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for _ in range(2):
                start_s = time.perf_counter()
                notebook.shell.run_cell(cell)
                took_s = time.perf_counter() - start_s
            before = state(notebook)
            for number in range(tries):
                signals.arm(rng.uniform(0, took_s))
                error = run(notebook, cell)
                signals.disarm()
                once, twice = once + (signals.raised > 0), twice + (signals.raised > 1)
                faults += faults_after(notebook, cell, before, f"try {number}")
                if signals.raised and error is None:
                    faults.append(f"try {number}: the interrupt was lost at\n{''.join(signals.struck)}")
        print(f"{cell[:45]!r}: {once} interrupted, {twice} of them twice; {len(faults)} faults")
        print("\n".join(faults), end="\n" if faults else "")


if __name__ == "__main__":
    with own_temporary_files():
        main(int(sys.argv[1]), int(sys.argv[2]))
