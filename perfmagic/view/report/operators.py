"""The tables of a report about what a device worked on: by operator and by category."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perfmagic import units
from perfmagic.analysis.timeline.categories import CATEGORY_WORDS, Category
from perfmagic.view.report.table import (
    ReportTable,
    cell,
    columns_of,
    count_cell,
    named_table,
    rate_cell,
    share_cell,
    time_cell,
)

_SHAPES_LENGTH = 60


def operator_table(device: Mapping[str, Any], where: str) -> ReportTable:
    """Device time by operator, the longest first."""
    rows = [
        (
            cell(_name(row, _SHAPES_LENGTH), full=_name(row)),
            count_cell(row["n_calls"]),
            time_cell(row["total_ns"]),
            time_cell(row["mean_ns"]),
            share_cell(row["share_frac"]),
            cell(_rate(row["flop_per_s"], row["peak_frac"]), row["flop_per_s"]),
            rate_cell(row["bytes_per_s"]),
        )
        for row in device["device_operators"]
    ]
    of_calls = "self" if any(row["source"] == "operator" for row in device["device_operators"]) else "total"
    head = ("", "calls", of_calls, "mean", "of all ops", "achieved", "in and out")
    return named_table(f"Device time by operator{where}", head, rows, "operator", _note(device, len(rows)))


def brief_operator_table(device: Mapping[str, Any], where: str) -> ReportTable:
    """The same in fewer columns; empty where the record has no operators, because the table of kernels says it all."""
    rows = device["device_operators"]
    whole = operator_table(device, where)
    if not any(row["source"] in ("operator", "graph") for row in rows):
        return ReportTable(whole.title, whole.head, ())
    kept = (0, 1, 2, 4, 5)
    head, *cells = (tuple(row[i] for i in kept) for row in (whole.head, *whole.rows))
    return replace(whole, head=head, rows=tuple(cells))


def category_table(device: Mapping[str, Any], where: str) -> ReportTable:
    """Device time by what it was for; adds up to the summed time of all ops."""
    head, rows = columns_of(
        device["categories"],
        lambda row: CATEGORY_WORDS[Category[row["category"].upper()]],
        (
            ("ops", count_cell, "n_ops"),
            ("total", time_cell, "total_ns"),
            ("of all ops", share_cell, "share_frac"),
        ),
    )
    return ReportTable(f"Device time by category{where}", head, tuple(rows))


def _name(row: Mapping[str, Any], length: int | None = None) -> str:
    """The operator with its inputs, their shapes in so many characters."""
    kernel, shapes = "kernel " if row["source"] in ("kernel", "unknown") else "", row["shapes"]
    if length is not None and len(shapes) > length:
        shapes = shapes[: length - 1] + "…"
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
    if any(row["source"] == "operator" for row in device["device_operators"]):
        words.append("self: an op counts for the innermost operator around its launch")
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
