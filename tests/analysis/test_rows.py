import builtins
import copy
import json
from dataclasses import dataclass

import numpy as np
import pytest

from perfmagic.base.errors import PerfmagicError
from perfmagic.trace.names import OpClass
from perfmagic.trace.rows import Rows, names_at


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


def test_rows_equal_a_tuple_of_them_and_a_part_of_them_is_a_table_again() -> None:
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


@dataclass(frozen=True)
class Span:
    start_ns: int
    end_ns: int
    name: str | None

    @property
    def length_ns(self) -> int:
        built.append(self.start_ns)
        return self.end_ns - self.start_ns


built: list[int] = []  # the rows that were made and asked for a property


def spans(n: int, start: int = 0) -> Rows[Span]:
    at = np.arange(start, start + n)
    columns = {"start_ns": at, "end_ns": at + 5, "name": names_at(("a", "b"), at % 3 - 1), "length_ns": np.full(n, 5)}
    return Rows.of_columns(columns, Span)


def test_rows_of_columns_are_the_same_rows() -> None:
    made = Rows([Span(0, 5, None), Span(1, 6, "a"), Span(2, 7, "b")], Span)
    assert spans(3) == made == tuple(spans(3))
    assert hash(spans(3)) == hash(made)
    assert (spans(3)[-1], spans(3)[1:]) == (made[2], made[1:])
    assert type(spans(3)[0].start_ns) is int
    assert (repr(spans(3)), spans(3).to_dict()) == (repr(made), made.to_dict())
    assert copy.deepcopy(spans(3)) == made
    with pytest.raises(IndexError):
        spans(3)[3]


def test_a_frame_of_columns_builds_no_row() -> None:
    pytest.importorskip("pandas")
    built.clear()
    frame = spans(1000).to_frame()
    assert built == []
    assert frame.equals(Rows(tuple(spans(1000)), Span).to_frame())
    assert len(built) == 1000


def test_tables_join_by_columns_where_they_have_them() -> None:
    pytest.importorskip("pandas")
    built.clear()
    joined = Rows.joined([spans(2), Rows((), Span, note="one was empty"), spans(2, 2)], Span)
    assert joined.to_frame().start_ns.tolist() == [0, 1, 2, 3]
    assert joined.to_frame().attrs == {"note": "one was empty"}
    assert built == []
    assert Rows.joined([spans(2), Rows(spans(2, 2), Span)], Span) == spans(4)


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="end_ns, name"):
        Rows.of_columns({"start_ns": np.arange(2)}, Span)


def test_an_empty_table_says_why() -> None:
    assert repr(Rows((), Run, note="nothing ran")) == "0 runs\n  nothing ran"
    assert repr(Rows((), Run)) == "0 runs"


def test_without_pandas_a_frame_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(PerfmagicError, match="Hint: pip install pandas"):
        RUNS.to_frame()
