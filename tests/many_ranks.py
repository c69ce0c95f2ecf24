"""Running one source in several processes that form a process group, for tests. No port is fixed."""

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from .forked import started

WAIT_S = 300  # only processes that hang get there

_PRELUDE = """
import json, os, sys, warnings
warnings.filterwarnings("ignore")
import torch, torch.distributed as dist
import perfmagic
from perfmagic.sim import groups
torch.set_num_threads(1)
rank, world_size, backend = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4]
if backend == "sim":
    device = perfmagic.device("sim")
else:
    device = torch.device("cpu")
    groups.register()
dist.init_process_group(
    backend, store=dist.FileStore(sys.argv[3], world_size), rank=rank, world_size=world_size
)
def say(**values):
    print("SAID " + json.dumps(values), flush=True)
"""


def run_ranks(
    folder: Path, n: int, source: str, *, backend: str = "sim", fails: tuple[int, ...] = ()
) -> list[dict[str, Any]]:
    """What each of n processes said with say(name=value); fails: the ranks that have to end with an error."""
    script = folder / "rank.py"
    script.write_text(_PRELUDE + source)
    meeting = folder / uuid.uuid4().hex
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    ranks = [started([str(script), str(rank), str(n), str(meeting), backend], environment) for rank in range(n)]
    try:
        ended = [rank.communicate(timeout=WAIT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    codes = {rank: process.returncode for rank, process in enumerate(ranks)}
    assert {rank for rank, code in codes.items() if code} == set(fails), "\n".join(
        f"rank {rank} ended with {codes[rank]}:\n{out[-600:]}\n{err[-2000:]}" for rank, (out, err) in enumerate(ended)
    )
    return [_said(out) for out, _ in ended]


def _said(out: str) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for line in out.splitlines():
        if line.startswith("SAID "):
            said |= json.loads(line.removeprefix("SAID "))
    return said
