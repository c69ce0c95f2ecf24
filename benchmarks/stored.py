"""How many bytes do timelines take in a notebook, with the state of their widgets, as JupyterLab stores it?

    python benchmarks/stored.py

Each case runs in a kernel of its own, as Voila runs it: shown to somebody. "result" is the last cell's outputs, "state"
what the notebook's metadata have of widgets, "script" how often and how long the module that draws lies there.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.kernel.session import run_notebook  # noqa: E402  # a kernel that finds the package of this tree

START = "%load_ext perfmagic\nimport torch, perfmagic\nx = torch.ones(4, 4, device=perfmagic.device('sim'))"
SOME_OPS = "%%timeline\nfor _ in range(20):\n    x = x @ x"
NO_OPS = "%%timeline\nsum(range(1000))"
CASES = {"without ops": (NO_OPS,), "one timeline of 20 ops": (SOME_OPS,), "ten timelines of 20 ops": (SOME_OPS,) * 10}
STATE = "application/vnd.jupyter.widget-state+json"


def size_bytes(value: Any) -> int:
    """As it stands in the file."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def measure(name: str, cells: tuple[str, ...]) -> dict[str, Any]:
    """One notebook, written by nbformat."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"PYTHONPATH": str(ROOT), "IPYTHONDIR": folder, "VOILA_PREHEAT": "1"}
        notebook, error = run_notebook([START, *cells], sys.executable, Path(folder))
    if error:
        sys.exit(f"{name}: {error}")
    models = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    scripts = [text for model in models.values() for text in map(str, model["state"].values()) if len(text) > 50_000]
    return {
        "case": name,
        "notebook_bytes": len(nbformat.writes(notebook).encode()),
        "result_bytes": sum(size_bytes(output.get("data")) for output in notebook.cells[-1].outputs),
        "state_bytes": size_bytes(models),
        "scripts": len(scripts),
        "script_bytes": sum(map(len, scripts)),
    }


def main() -> None:
    """Print one JSON object a case."""
    for name, cells in CASES.items():
        print(json.dumps(measure(name, cells)), flush=True)


if __name__ == "__main__":
    main()
