"""Dumps of a flight recorder as torch's FlightRecorderDetail.hpp builds them for NCCL, without NCCL."""

import json
import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
CREATED_NS = 1_795_739_665_000_000_000
Entry = dict[str, Any]


class Recorder:
    """What one rank records.  groups: the ranks of each by (name, desc); the default group has the name "0"."""

    def __init__(self, rank: int, groups: dict[tuple[str, str], Sequence[int]], version: str = "2.10") -> None:
        self.rank, self.groups, self.version = rank, groups, version
        self.entries: list[Entry] = []
        self._numbers: dict[tuple[str, bool], int] = {}

    def call(
        self,
        name: str,
        group: tuple[str, str] = ("0", "default_pg"),
        *,
        line: int = 10,
        state: str = "completed",
        sizes: Sequence[int] = (1024,),
        dtype: str = "Float",
        duration_ms: float | None = None,
        same: bool = False,
        outputs: Sequence[int] | None = None,
    ) -> Entry:
        """One more call.  same: it has the number of the one before, as in a coalesced group."""
        is_p2p = name.startswith(("send", "recv"))
        key = (group[0], is_p2p)
        self._numbers[key] = self._numbers.get(key, 0) + (not same)
        at_ns = CREATED_NS + len(self.entries) * 1_000_000
        entry: Entry = {
            "frames": [
                {"name": name, "filename": TORCH, "line": 3245},
                {"name": "train_step", "filename": "/home/me/train.py", "line": line},
                {"name": "<module>", "filename": "/home/me/train.py", "line": 99},
            ],
            "record_id": len(self.entries),
            "pg_id": [*self.groups].index(group),
            "process_group": group,
            "thread_name": "pt_main_thread",
            "thread_id": "139917549927296",
            "collective_seq_id": self._numbers.get((group[0], False), 0),
            "p2p_seq_id": self._numbers.get((group[0], True), 0),
            "op_id": len(self.entries) + 1,
            "profiling_name": f"nccl:{name}",
            "time_created_ns": at_ns,
            "input_sizes": [list(sizes)],
            "input_dtypes": [dtype],
            "output_sizes": [list(outputs or sizes)],
            "output_dtypes": [dtype],
            "state": state,
            "time_discovered_started_ns": at_ns + 1000 if state in ("started", "completed") else None,
            "time_discovered_completed_ns": at_ns + 9000 if state == "completed" else None,
            "retired": state == "completed",
            "timeout_ms": 600_000,
            "is_p2p": is_p2p,
        }
        if duration_ms is not None:
            entry["duration_ms"] = duration_ms
        self.entries.append(entry)
        return entry

    @property
    def content(self) -> dict[str, Any]:
        """What a pickle holds."""
        config = {
            name: {"name": name, "desc": desc, "ranks": str(list(ranks))} for (name, desc), ranks in self.groups.items()
        }
        return {
            "version": self.version,
            "pg_config": config,
            "comm_lib_version": "2.27.3",
            "pg_status": {"0": {"last_enqueued_collective": 1, "last_started_collective": -1}},
            "entries": self.entries,
        }

    def write(self, folder: Path, prefix: str = "nccl_trace_rank_") -> Path:
        path = folder / f"{prefix}{self.rank}"
        path.write_bytes(pickle.dumps(self.content, protocol=2))
        return path

    def write_json(self, folder: Path) -> Path:
        """As _dump_nccl_trace_json: sorted keys, no stacks, 0 for what has not happened."""
        entries = [
            {key: 0 if value is None else value for key, value in entry.items() if key != "frames"}
            for entry in self.entries
        ]
        path = folder / f"nccl_trace_rank_{self.rank}.json"
        path.write_text(json.dumps(self.content | {"entries": entries}, sort_keys=True))
        return path


def job(n: int, groups: dict[tuple[str, str], Sequence[int]] | None = None) -> list[Recorder]:
    """The recorders of n ranks, with the default group and others."""
    default = {("0", "default_pg"): range(n)}
    return [
        Recorder(rank, default | {key: ranks for key, ranks in (groups or {}).items() if rank in ranks})
        for rank in range(n)
    ]


def all_call(
    recorders: Iterable[Recorder], name: str, group: tuple[str, str] = ("0", "default_pg"), **options: Any
) -> None:
    """A call on all ranks of a group among these."""
    for recorder in recorders:
        if group in recorder.groups:
            recorder.call(name, group, **options)
