from __future__ import annotations

import builtins
import copy
import json
from dataclasses import dataclass

import pytest

from perfmagic.analysis.rows import Rows
from perfmagic.errors import PerfmagicError
from perfmagic.trace.names import OpClass


@dataclass(frozen=True)
class Run:
    name: str
    op_class: OpClass
    n: int
    total_ns: int
    grid: tuple[int, int, int] | None = None

    @property
    def mean_ns(self) -> float:
        return self.total_ns / self.n


RUNS = Rows([Run("a", OpClass.MATRIX, 2, 30, (4, 1, 1)), Run("b", OpClass.HTOD, 1, 7)], Run)


def test_rows_are_a_tuple_and_a_part_of_them_is_a_table_again() -> None:
    assert (RUNS[0], RUNS[1]) == RUNS
    assert isinstance(RUNS[1:], Rows)
    assert RUNS[1:].to_dict()[0]["name"] == "b"
    assert copy.deepcopy(RUNS).to_dict() == RUNS.to_dict()


def test_plain_rows_are_ready_for_json_with_fields_and_properties() -> None:
    assert json.loads(json.dumps(RUNS.to_dict())) == [
        {"name": "a", "op_class": "matrix", "n": 2, "total_ns": 30, "grid": [4, 1, 1], "mean_ns": 15.0},
        {"name": "b", "op_class": "htod", "n": 1, "total_ns": 7, "grid": None, "mean_ns": 7.0},
    ]


def test_a_frame_has_a_column_a_field_or_property_even_without_rows() -> None:
    pytest.importorskip("pandas")
    frame = RUNS.to_frame()
    assert list(frame.columns) == ["name", "op_class", "n", "total_ns", "grid", "mean_ns"]
    assert frame.mean_ns.tolist() == [15.0, 7.0]
    empty = Rows((), Run).to_frame()
    assert (list(empty.columns), len(empty)) == (list(frame.columns), 0)


def test_without_pandas_a_frame_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(PerfmagicError, match="Hint: pip install pandas"):
        RUNS.to_frame()
