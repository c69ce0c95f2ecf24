"""The tables of a report about Python's side: steps, operators, annotations, lines of the cell, waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmagic.view.report.table import (
    ReportTable,
    cell,
    columns_of,
    count_cell,
    named_table,
    share_cell,
    time_cell,
    whole_name,
)


def steps_table(report: Mapping[str, Any]) -> ReportTable:
    """The training steps: their time on the host, and what they had the devices do."""
    head, rows = columns_of(
        report["steps"],
        lambda step: cell(f"step {step['number']}", step["number"]),
        (
            ("on the host", time_cell, "duration_ns"),
            ("busy then", share_cell, "window_busy_frac"),
            ("compute", time_cell, "compute_ns"),
            ("communication", time_cell, "communication_ns"),
            ("copies", time_cell, "copy_ns"),
            ("lap", time_cell, "lap_ns"),
            ("ops, all threads", count_cell, "n_ops"),
        ),
    )
    return ReportTable("Steps", head, tuple(rows), report["steps_note"], thing="step")


def operators_table(report: Mapping[str, Any]) -> ReportTable:
    """What each operator cost, with and without those inside it."""
    head, rows = columns_of(
        report["operators"],
        whole_name,
        (
            ("calls", count_cell, "n_calls"),
            ("host total", time_cell, "host_ns"),
            ("host self", time_cell, "host_self_ns"),
            ("device total", time_cell, "device_ns"),
            ("device self", time_cell, "device_self_ns"),
            ("ops", count_cell, "n_ops"),
        ),
    )
    return named_table("Operators on the host", head, rows, "operator")


def annotations_table(report: Mapping[str, Any]) -> ReportTable:
    """What each annotation took, and what was launched inside it on its own thread."""
    head, rows = columns_of(
        report["annotations"],
        whole_name,
        (
            ("times", count_cell, "n_occurrences"),
            ("host", time_cell, "host_ns"),
            ("device busy, own thread", time_cell, "busy_ns"),
            ("ops, own thread", count_cell, "n_ops"),
        ),
    )
    return named_table("Annotations", head, rows, "annotation")


def lines_table(report: Mapping[str, Any]) -> ReportTable:
    """The lines of the cell."""
    head, rows = columns_of(
        report["lines"],
        lambda one: cell(f"{one['line']}: {one['text'].strip()}", one["line"]),
        (
            ("host", time_cell, "host_ns"),
            ("blocked", time_cell, "blocked_ns"),
            ("device", time_cell, "device_ns"),
            ("queued", time_cell, "queued_ns"),
            ("idle", time_cell, "idle_ns"),
            ("ops", count_cell, "n_ops"),
        ),
    )
    return ReportTable("Lines of the cell", head, tuple(rows), thing="line")


def syncs_table(report: Mapping[str, Any]) -> ReportTable:
    """What made Python wait for the device."""
    head, rows = columns_of(
        report["syncs"],
        lambda one: one["asked_by"] + (f", line {', '.join(map(str, one['lines']))}" if one["lines"] else ""),
        (
            ("asked", count_cell, "n_asked"),
            ("calls", count_cell, "n_calls"),
            ("Python blocked", time_cell, "blocked_ns"),
            ("device busy meanwhile", time_cell, "busy_ns"),
        ),
    )
    return named_table("Waits for the device", head, rows, "wait")
