"""An option is described once: the signature, the docstring, the flag and the row of the docs come from it."""

from __future__ import annotations

import argparse
import inspect
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest

from perfmagic.api import options
from perfmagic.api.options import Option, add_flag, described, keywords
from perfmagic.base.errors import KeywordError
from perfmagic.capture.recording.recorder import DEVICE_KINDS
from perfmagic.trace.kineto.file import DEFAULT_LIMIT_BYTES

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Brewing(TypedDict, total=False):
    """How tea is made."""

    cups: Annotated[int | None, Option("how much to brew", unset="one for each guest", short="-c", metavar="N")]
    boil: Annotated[float, Option("boil the water", 1.5, unit="minutes", metavar="M")]
    milk: Annotated[bool, Option("add milk", default=False)]
    lemon: Annotated[bool | None, Option("add lemon", unset="where there is no milk")]
    label: Annotated[
        str, Option("what to write on the pot", "tea", metavar="A|B", alias="--on", more=", see [pots](p.md)")
    ]


@keywords(Brewing, without=["label"], boil=3.0)
def brew(pot: str, **given: Unpack[Brewing]) -> dict[str, Any]:
    """Make tea."""
    return {"pot": pot, **given}


def test_the_signature_shows_each_keyword_with_type_and_default() -> None:
    shown = "(pot: 'str', *, cups: 'int | None' = None, boil: 'float' = 3.0, milk: 'bool' = False, "
    assert str(inspect.signature(brew)) == f"{shown}lemon: 'bool | None' = None) -> 'dict[str, Any]'"


def test_the_function_gets_every_option() -> None:
    assert brew("big", milk=True) == {"pot": "big", "cups": None, "boil": 3.0, "milk": True, "lemon": None}


def test_the_docstring_has_a_line_for_each_keyword() -> None:
    assert inspect.getdoc(brew) == (
        "Make tea.\n\nOptions:\n\n"
        "cups (default None): how much to brew; None: one for each guest.\n"
        "boil (default 3.0): boil the water, in minutes.\n"
        "milk (default False): add milk.\n"
        "lemon (default None): add lemon; None: where there is no milk."
    )


def test_a_keyword_outside_the_family_is_an_error() -> None:
    with pytest.raises(KeywordError, match=r"brew: there is no option mlik\nHint: did you mean milk\?"):
        brew("big", mlik=True)
    with pytest.raises(KeywordError, match="there is no option label"):
        brew("big", label="tea")


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brew")
    for option in described(Brewing).values():
        add_flag(parser, option)
    return parser


def test_flags_read_the_types_of_keywords(parser: argparse.ArgumentParser) -> None:
    assert vars(parser.parse_args([])) == {"cups": None, "boil": 1.5, "milk": False, "lemon": None, "label": "tea"}
    given = parser.parse_args(["-c", "2", "--boil", "4", "--milk", "--no-lemon", "--on", "green"])
    assert vars(given) == {"cups": 2, "boil": 4.0, "milk": True, "lemon": False, "label": "green"}


def test_the_help_of_a_flag_says_the_default(parser: argparse.ArgumentParser) -> None:
    text = " ".join(parser.format_help().split())
    assert "how much to brew (default: one for each guest)" in text
    assert "boil the water (default: 1.5 minutes)" in text
    assert "add milk (" not in text


def test_the_docs_get_a_row_for_each_flag(parser: argparse.ArgumentParser) -> None:
    spellings = {action.dest: action.option_strings for action in parser._actions}
    assert [option.table_row(spellings[name]) for name, option in described(Brewing).items()] == [
        "| `-c N`, `--cups N` | one for each guest | how much to brew |",
        "| `--boil M` | 1.5 minutes | boil the water |",
        "| `--milk` | off | add milk |",
        "| `--lemon`, `--no-lemon` | where there is no milk | add lemon |",
        r"| `--label A\|B`, `--on A\|B` | tea | what to write on the pot, see [pots](p.md) |",
    ]


def test_values_written_down_for_a_quick_import_are_those_in_force() -> None:
    assert described(options.ReadOptions)["max_unpacked_bytes"].default == DEFAULT_LIMIT_BYTES
    assert options.DEVICES == DEVICE_KINDS
