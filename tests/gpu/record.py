"""Records every scene on this machine's GPU into small files, with their reference numbers and where they are from.

    python -m tests.gpu.record --out tests/data/gpu        (make record-gpu)

Takes about a minute. --device sim plays it on the simulated device instead: to try this program, never to keep.
"""

import argparse
import datetime as dt
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from perfmagic.analysis.report import report
from perfmagic.capture.devices import torch_private
from perfmagic.trace.formats.chrome import write_chrome
from tests.gpu.cells import SCENES, Scene, play
from tests.gpu.reference import reference

MOST_BYTES = 200_000
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Record all scenes; 1 where one failed, 2 where there is no device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "data" / "gpu")
    parser.add_argument("--device", default="cuda", choices=("cuda", "sim"))
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no CUDA device: nothing recorded")
        return 2
    if options.device == "sim":
        import perfmagic

        perfmagic.device("sim")
    options.out.mkdir(parents=True, exist_ok=True)
    rows = [_record(name, scene, options.device, options.out) for name, scene in SCENES.items()]
    (options.out / "PROVENANCE.md").write_text(provenance(rows, options.device), encoding="utf-8")
    for row in rows:
        print(f"{row['name']:16} {row['said']}")
    return int(any(row["failed"] for row in rows))


def _record(name: str, scene: Scene, device: str, out: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "shows": scene.shows, "failed": False}
    if scene.needs == "cuda" and device != "cuda":
        return row | {"said": "skipped: only CUDA has it"}
    since = time.perf_counter()
    raw = Path(tempfile.mkdtemp()) / "raw.json"
    try:
        with _kept(raw):
            trace = play(scene, device)
        saved = write_chrome(trace, out / f"{name}.json.gz")
        expected = {"report": report(trace), "reference": reference(raw) if raw.exists() else None}
        (out / f"{name}.expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1), encoding="utf-8")
    except Exception as error:  # noqa: BLE001 - one scene that fails must not cost the others
        traceback.print_exc()
        return row | {"failed": True, "said": f"FAILED: {type(error).__name__}: {error}"}
    finally:
        shutil.rmtree(raw.parent, ignore_errors=True)
    size = saved.stat().st_size
    said = f"{len(trace.ops):5} ops, {size / 1000:5.1f} kB, {time.perf_counter() - since:4.1f} s"
    return row | {"failed": size > MOST_BYTES, "said": said + (" TOO LARGE" if size > MOST_BYTES else "")}


class _kept:  # noqa: N801 - reads like a function
    """Keep a copy of the file that Kineto writes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._save = torch_private.save_profile

        def save(profile: Any, path: str) -> None:
            self._save(profile, path)
            shutil.copyfile(path, self._path)

        torch_private.save_profile = save

    def __exit__(self, *_: object) -> None:
        torch_private.save_profile = self._save


def provenance(rows: list[dict[str, Any]], device: str) -> str:
    """Where the files are from, for readers and for tests that must not take one machine for another."""
    if device == "cuda":
        name = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
        built = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}"
        machine = f"- device: {name}\n- driver: {_driver()}\n- torch: {torch.__version__} ({built})\n"
    else:
        machine = f"- device: simulated device, no GPU\n- torch: {torch.__version__}\n"
    scenes = "\n".join(f"- `{row['name']}`: {row['shows']} ({row['said'].strip()})" for row in rows)
    return (
        f"# Recordings of one machine\n\n{machine}- Python: {platform.python_version()} on {platform.system()}\n"
        f"- date: {dt.datetime.now(dt.timezone.utc):%Y-%m-%d}\n"
        f"- command: `{' '.join(['python -m tests.gpu.record', *sys.argv[1:]])}`\n\n{scenes}\n\n"
        "`*.expected.json` has perfmagic's report of the file, and `reference`: the same totals computed from\n"
        "Kineto's own file by tests/gpu/reference.py, which uses nothing of perfmagic.\n"
    )


def _driver() -> str:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.split("\n")[0] or "unknown"
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
