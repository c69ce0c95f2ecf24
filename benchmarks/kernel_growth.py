"""How much a kernel grows by each measured cell, and whether results that the user drops are freed.

    python benchmarks/kernel_growth.py [cells]

Every magic takes its turn, each cell has a text of its own, and nothing keeps a result. Prints the kernel's memory,
what a cell after the 50th adds to it (0.015 MB of 320 cells; budget 0.02 MB), and how many traces are left. Linux,
torch, ipykernel.
"""

import sys
import tempfile
import time
from typing import Any

from jupyter_client.manager import start_new_kernel

WARM = 50  # cells until imports, caches of names and the connected live views have come
SETUP = """
%load_ext perfmagic
import ctypes, gc
import psutil, torch, perfmagic
x = torch.rand(64, 64, device=perfmagic.device("sim", pace="mm=1ms"))
f, g = (lambda: x + 1), (lambda: x + 2)
perfmagic.bench(f, samples=3).save("{folder}/bench.json")
with perfmagic.timeline() as block:
    f()
block.result.save("{folder}/trace.json")
del block
"""
CELLS = (
    "%%timeline -o t\nfor _ in range(20):\n    y = x.mm(x)  # {i}\ny.sum().item()",
    "%%bench --runs 3 --time 0.01\ny = x + {i}",
    "%%syncbench --time 0.05\ny = x.mm(x) + {i}",
    "%%graph\ny = x.mm(x) + {i}",
    "%%bench --vs --time 0.05\ny = x + {i}\n# --- B\ny = x + 2",
    "%%memory\ny = x.mm(x) + {i}",
    "t = %compare f g --time 0.05",
    "t = %trace {folder}/trace.json",
    "%%bench --sweep n=1,2 --time 0.05\nfor _ in range(n):\n    y = x + {i}",
    "%%timeline --lines\ndef body():\n    return x.mm(x) + {i}\nbody()",
)
MEMORY = """
t = None
gc.collect()
ctypes.CDLL("libc.so.6").malloc_trim(0)
print(psutil.Process().memory_info().rss, sum(type(o).__name__ == "Trace" for o in gc.get_objects()))
"""


def run(client: Any, code: str) -> str:
    """One cell; gives what it printed. Raises RuntimeError where it failed."""
    printed: list[str] = []

    def heard(message: Any) -> None:
        if message["msg_type"] == "error":
            raise RuntimeError(f"{code}: {message['content']['evalue']}")
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    client.execute_interactive(code, output_hook=heard, timeout=600)
    return "".join(printed)


def memory_bytes(client: Any) -> tuple[int, int]:
    """Resident memory of the kernel after a collection, and how many traces are alive."""
    resident, alive = run(client, MEMORY).split()[-2:]
    return int(resident), int(alive)


def main() -> None:
    """Run the cells and print one line a stage, then the growth."""
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 320
    manager, client = start_new_kernel()
    warm, started_s = 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run(client, SETUP.replace("{folder}", folder))
        for i in range(1, cells + 1):
            run(client, CELLS[i % len(CELLS)].replace("{folder}", folder).replace("{i}", str(i)))
            if i % WARM == 0 or i == cells:
                resident, alive = memory_bytes(client)
                warm = warm or resident
                print(f"{i} cells: {resident / 1e6:.1f} MB, traces alive: {alive}", flush=True)
    manager.shutdown_kernel(now=True)
    growth_mb = (resident - warm) / max(1, cells - WARM) / 1e6
    print(f"{growth_mb:.4f} MB a cell after the first {WARM}; {time.perf_counter() - started_s:.0f} s")


if __name__ == "__main__":
    main()
