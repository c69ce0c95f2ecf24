"""Whose code is it, and what a reader is shown of it."""

import __future__

import json
import linecache
from pathlib import Path
from types import CodeType, FunctionType

import numpy as np
import pytest

import perfmagic.base.units
from perfmagic.base.errors import OptionError
from perfmagic.capture.watch.sources import CHANGED, NO_TEXT, WHOLE_UP_TO, Sources
from perfmagic.capture.watch.user_code import UserCode


def compiled_in(name: str) -> CodeType:
    return compile("x = 1", name, "exec")


USERS = ("<ipython-input-3-0123456789ab>", "/tmp/ipykernel_77/1234567.py", "/home/someone/train.py", "train.py")
OTHERS = ("<string>", "<frozen importlib._bootstrap>", "<eval_with_key>.7")
OTHERS = (*OTHERS, json.__file__, np.__file__, perfmagic.base.units.__file__)


@pytest.mark.parametrize(("name", "mine"), [*((name, True) for name in USERS), *((name, False) for name in OTHERS)])
def test_cells_and_files_outside_of_libraries_are_the_users(name: str, mine: bool) -> None:
    assert UserCode()(compiled_in(name)) is mine


def test_a_package_that_was_named_counts_as_the_users() -> None:
    mine = UserCode(["numpy"])
    assert mine(compiled_in(np.linalg.__file__))
    assert not mine(compiled_in(json.__file__))


@pytest.mark.parametrize("name", ["no_such_package_here", "", "a..b"])
def test_an_unknown_package_is_refused_by_name(name: str) -> None:
    with pytest.raises(OptionError, match="--in: there is no package"):
        UserCode([name])


TEXT = '''\
import functools


@functools.cache
def twice(n):
    """Says so."""
    a = [
        n,
        n,
    ]
    if n:
        return sum(a)
    return 0


def other():
    return (1 +
            2)
'''


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "util.py"
    path.write_text(TEXT)
    linecache.checkcache(str(path))
    return path


def function(path: Path, name: str) -> CodeType:
    names: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    member = names[name]
    member = getattr(member, "__wrapped__", member)
    assert isinstance(member, FunctionType)
    return member.__code__


def test_a_line_belongs_to_the_statement_it_is_part_of(module: Path) -> None:
    code, sources = function(module, "twice"), Sources()
    assert [sources.statement(code, line) for line in (5, 6, 7, 8, 10, 11, 12, 13)] == [5, 6, 7, 7, 7, 11, 12, 13]


def test_a_function_is_shown_from_its_decorators_to_its_end(module: Path) -> None:
    known = Sources().function(function(module, "twice"), {7, 11, 12})
    assert (known.name, known.first_line, known.note) == ("twice", 4, "")
    assert [line for line, _ in known.texts] == list(range(4, 14))
    assert known.text(12) == "return sum(a)"
    assert known.file.endswith("util.py")


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("# one more line\n" + TEXT, CHANGED),
        (TEXT.replace("(1 +", "(3 +"), CHANGED),  # the function still begins and ends where it did
        (None, NO_TEXT),
    ],
    ids=["longer", "of the same shape", "gone"],
)
def test_a_file_that_is_not_what_ran_shows_no_text(module: Path, text: str | None, note: str) -> None:
    code = function(module, "other")
    module.unlink() if text is None else module.write_text(text)
    linecache.checkcache(str(module))
    known = Sources().function(code, {17})
    assert (known.texts, known.note) == ((), note)
    assert Sources().statement(code, 18) == 18


def test_of_a_long_function_the_lines_that_ran_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    body = "".join(f"    x{i} = {i}\n" for i in range(10 * WHOLE_UP_TO))
    path.write_text(f"def long():\n{body}")
    known = Sources().function(function(path, "long"), {1, 5, 900})
    assert [line for line, _ in known.texts] == [1, 5, 900]


def test_text_of_a_cell_that_is_no_python_is_still_text() -> None:
    name = "/nowhere/ipykernel_7/4.py"
    linecache.cache[name] = 24, None, ["%matplotlib inline\n", "x = 1\n"], name
    code = compile("\nx = 1", name, "exec")
    sources = Sources(lambda _name: "In[4]")
    assert sources.statement(code, 2) == 2
    known = sources.function(code, {2})
    assert (known.file, known.texts) == ("In[4]", ((2, "x = 1"),))


def test_a_lambda_of_a_changed_file_has_no_text(tmp_path: Path) -> None:
    path = tmp_path / "short.py"
    path.write_text("f = lambda x: x + 1\n")
    names: dict[str, FunctionType] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert Sources().function(names["f"].__code__, {1}).texts == ((1, "f = lambda x: x + 1"),)
    path.write_text("f = lambda x: x - 1\n")
    linecache.checkcache(str(path))
    assert Sources().function(names["f"].__code__, {1}).note == CHANGED


def test_a_reloaded_module_has_its_new_text_although_an_old_one_is_cached(module: Path) -> None:
    linecache.getlines(str(module))
    module.write_text("# a line more\n" + TEXT)
    known = Sources().function(function(module, "other"), {18})
    assert (known.note, known.texts[0]) == ("", (17, "def other():"))


def test_old_text_that_is_cached_is_shown_with_the_old_code(module: Path) -> None:
    code = function(module, "other")
    linecache.getlines(str(module))
    module.write_text("# a line more\n" + TEXT)
    assert Sources().function(code, {17}).texts[0] == (16, "def other():")


def test_code_that_took_over_its_compilers_future_is_the_files_code(module: Path) -> None:
    code = compile(module.read_text(), str(module), "exec", flags=__future__.annotations.compiler_flag)
    assert Sources().function(code, {1}).note == ""
