"""The tables of a report about what a device worked on: by operator and by category."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmagic import units
from perfmagic.view.report.table import ReportTable

CATEGORY_WORDS = {
    "gemm": "matrix products",
    "attention": "attention",
    "convolution": "convolution",
    "normalisation": "normalisation",
    "elementwise": "elementwise",
    "reduction": "reductions and softmax",
    "embedding": "embedding and indexing",
    "optimizer": "optimizer",
    "fused": "fused by torch.compile",
    "communication": "communication",
    "copy": "copies",
    "memset": "memset",
    "other": "other",
}
_SHAPES_LENGTH = 60


def operator_table(device: Mapping[str, Any], where: str, most: int) -> ReportTable:
    """Device time by operator, the longest first."""
    rows = [
        (
            _name(row),
            units.count(row["n_calls"]),
            units.duration(row["total_ns"]),
            units.duration(row["mean_ns"]),
            units.percent(row["share_frac"]),
            _rate(row["flop_per_s"], row["peak_frac"]),
            "" if row["bytes_per_s"] is None else f"{units.size(row['bytes_per_s'])}/s",
        )
        for row in device["device_operators"][:most]
    ]
    head = ("", "calls", "total", "mean", "of all ops", "achieved", "in and out")
    return ReportTable(f"Device time by operator{where}", head, tuple(rows), _note(device, len(rows)))


def brief_operator_table(device: Mapping[str, Any], where: str, most: int) -> ReportTable:
    """The same in fewer columns; empty where the record has no operators, because the table of kernels says it all."""
    rows = device["device_operators"]
    known = any(row["source"] in ("operator", "graph") for row in rows)
    whole = operator_table(device, where, most if known else 0)
    kept = (0, 1, 2, 4, 5)
    head, *cells = (tuple(row[i] for i in kept) for row in (whole.head, *whole.rows))
    return ReportTable(whole.title, head, tuple(cells), whole.note)


def category_table(device: Mapping[str, Any], where: str) -> ReportTable:
    """Device time by what it was for; adds up to the summed time of all ops."""
    rows = [
        (
            CATEGORY_WORDS[row["category"]],
            units.count(row["n_ops"]),
            units.duration(row["total_ns"]),
            units.percent(row["share_frac"]),
        )
        for row in device["categories"]
    ]
    return ReportTable(f"Device time by category{where}", ("", "ops", "total", "of all ops"), tuple(rows))


def _name(row: Mapping[str, Any]) -> str:
    kernel = "kernel " if row["source"] in ("kernel", "unknown") else ""
    shapes = row["shapes"] if len(row["shapes"]) <= _SHAPES_LENGTH else row["shapes"][: _SHAPES_LENGTH - 1] + "…"
    return kernel + " ".join(filter(None, (row["name"], shapes, row["dtypes"])))


def _rate(flop_per_s: float | None, peak_frac: float | None) -> str:
    if flop_per_s is None:
        return ""
    share = "" if peak_frac is None else f" ({units.percent(peak_frac)})"
    return units.rate(flop_per_s, "FLOP/s") + share


def _note(device: Mapping[str, Any], n_rows: int) -> str:
    found, words = device["achieved"], []
    if not n_rows:
        return ""
    if found["unattributed_ns"]:
        words.append(f"{units.duration(found['unattributed_ns'])} were launched by no recorded operator")
    if found["flop_ns"]:
        rate = units.rate(found["flop"] / found["flop_ns"] * 1e9, "FLOP/s")
        words.append(f"counted operators: {units.duration(found['flop_ns'])} at {rate}")
    peaks = device["peaks"]
    if peaks is None and found["flop_ns"]:
        words.append(f"no peak of {device['label']} is known")
    elif peaks is not None and found["flop_ns"]:
        words.append(f"shares in brackets: of the peak of {peaks['name']}, {peaks['kind']}")
    words += [device["operators_note"]] if device["operators_note"] else []
    return "; ".join(words)
