"""The rows and the summary of what_if.py and what_if_ranks.py: what was predicted of a change beside what it took."""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perfmagic.analysis.replay.prediction import Prediction

COLUMNS = ("before", "predicted (interval)", "measured", "error", "inside")


def parsed(about: str) -> argparse.Namespace:
    """The command line of both."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def head(*labels: str) -> list[str]:
    """The first two lines of a table."""
    columns = (*labels, *COLUMNS)
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def refused_row(predictions: Sequence[Prediction], *labels: str) -> dict[str, Any]:
    """The row of a change that got no number; empty where it got one."""
    refused = next((prediction.refused for prediction in predictions if prediction.refused), "")
    return {"labels": labels, "refused": refused} if refused else {}


def row_of(
    predictions: Sequence[Prediction], measured_ms: float, *labels: str, before_ms: float | None = None
) -> dict[str, Any]:
    """Medians in ms.  before_ms: of the unrecorded program before, by which the predictions are scaled."""
    recorded, expected, low, high = (
        statistics.median(getattr(prediction, name) for prediction in predictions) / 1e6
        for name in ("recorded_ns", "expected_ns", "low_ns", "high_ns")
    )
    scale = 1.0 if before_ms is None else before_ms / recorded
    row: dict[str, Any] = {"labels": labels, "before": scale * recorded, "predicted": scale * expected}
    row |= {"low": scale * low, "high": scale * high, "measured": measured_ms}
    row["error"] = row["predicted"] / measured_ms - 1
    row["inside"] = row["low"] <= measured_ms <= row["high"]
    return row


def row_text(row: dict[str, Any]) -> str:
    """A row as Markdown."""
    labels = " | ".join(row["labels"])
    if "refused" in row:
        return f"| {labels} | | refused: {row['refused']} | | | |"
    return (
        f"| {labels} | {row['before']:.0f} | {row['predicted']:.0f} ({row['low']:.0f} … {row['high']:.0f}) "
        f"| {row['measured']:.0f} | {100 * row['error']:+.1f} % | {'yes' if row['inside'] else 'NO'} |"
    )


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """How far the rows with a number are off, and how many lie inside their interval; empty where there are none."""
    known = [row for row in rows if "error" in row]
    if not known:
        return ""
    errors = [abs(row["error"]) for row in known]
    words = f"median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %"
    return f"{words}, {sum(row['inside'] for row in known)} of {len(known)} inside the interval"
