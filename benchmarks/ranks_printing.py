"""What printing in ranks costs, beside a plain cell of the same notebook (budget: 3 times).

    python benchmarks/ranks_printing.py [lines]

A kernel runs a cell that prints that many lines (8,000), once plainly and once in two ranks, which print as many each.
Medians of seven rounds, the two in turn, until the kernel is idle and all output has come. torch, jupyter_client.
"""

import statistics
import sys
import time
from typing import Any

from jupyter_client.manager import start_new_kernel

ROUNDS = 7
RANKS = 2


def main() -> None:
    """Print both times and their ratio."""
    lines = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        run(client, "%load_ext perfmagic")
        run(client, f"%%ranks -n {RANKS} --device cpu --plain\npass")
        body = f"for i in range({lines}):\n    print('line', i)"
        plain_s, ranks_s = [], []
        for _ in range(ROUNDS):
            plain_s.append(run(client, body, lines))
            ranks_s.append(run(client, f"%%ranks --plain\n{body}", RANKS * lines))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    plain, ranks = statistics.median(plain_s), statistics.median(ranks_s)
    print(f"{lines:,} lines in a plain cell: {1e3 * plain:.0f} ms")
    print(f"{lines:,} lines in each of {RANKS} ranks: {1e3 * ranks:.0f} ms, {ranks / plain:.1f} times a plain cell")


def run(client: Any, code: str, lines: int | None = None) -> float:
    """Run a cell and give how long it took. Raises RuntimeError where it failed, or printed another number of lines."""
    messages: list[dict[str, Any]] = []
    begin_s = time.perf_counter()
    reply = client.execute_interactive(code, output_hook=messages.append, timeout=300)
    took_s = time.perf_counter() - begin_s
    printed = sum(one["content"].get("text", "").count("\n") for one in messages if one["msg_type"] == "stream")
    if reply["content"]["status"] != "ok" or lines not in (None, printed):
        raise RuntimeError(f"{reply['content']}: {printed} lines of {lines}")
    return took_s


if __name__ == "__main__":
    main()
