"""docs/*.schema.json are what the classes and their docstrings say."""

from dataclasses import dataclass

import pytest

from tests.schemas import DOCS, RESULTS, schema_text


@pytest.mark.parametrize("name", RESULTS)
def test_a_committed_schema_is_what_its_class_says(name: str) -> None:
    text = (DOCS / f"{name}.schema.json").read_text("utf-8")
    assert text == schema_text(name, *RESULTS[name]), "python -m tests.schemas writes it anew"


@dataclass(frozen=True)
class Undescribed:
    """A row.

    n_ops: ops of it.
    """

    n_ops: int
    new_ns: int


def test_a_key_without_a_description_is_named() -> None:
    with pytest.raises(ValueError, match=r"Undescribed: the docstring does not describe new_ns"):
        schema_text("rows", Undescribed)
