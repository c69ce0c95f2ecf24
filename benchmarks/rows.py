"""What the benchmarks share to print rows and to write them with machine and versions."""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perfmagic.capture.devices.environment import environment

Row = dict[str, Any]


def parser_of(about: str) -> argparse.ArgumentParser:
    """A command line that shows the file's docstring, with --out."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    return parser


def printed(row: Row) -> Row:
    """The row, once it is printed on one line."""
    words = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())
    print("  ".join(words), flush=True)
    return row


def write(out: Path | None, rows: Iterable[Row], **more: object) -> None:
    """Write rows as JSON, where a file was asked for."""
    if out is not None:
        found = {"environment": environment(), "rows": list(rows), **more}
        out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


def table(rows: Sequence[Row]) -> str:
    """Rows below the names of their columns."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    texts = [keys, *([_cell(row.get(key, "")) for key in keys] for row in rows)]
    widths = [max(len(line[i]) for line in texts) for i in range(len(keys))]
    return "\n".join("  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)).rstrip() for line in texts)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.5g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
