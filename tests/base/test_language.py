"""In which language answers are shown, and texts that know their translation."""

import copy
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass

import pytest

from perfmagic.base.errors import OptionError
from perfmagic.base.language import (
    LANGUAGES,
    LOCALE,
    VARIABLE,
    capitalised,
    configure,
    counted,
    language,
    phrase,
    say,
    set_language,
    translated,
)
from perfmagic.trace.json_form import JsonForm

IDLE, BUSY = "The device stood idle for {time}", "设备空闲了 2 ms"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmagic.base.language._chosen", [])
    monkeypatch.setattr("perfmagic.base.language._configured", ["en"])
    monkeypatch.delenv(VARIABLE, raising=False)


def test_every_language_but_english_has_a_folder_of_translations() -> None:
    assert {"en", *(path.name for path in LOCALE.iterdir() if path.is_dir())} == set(LANGUAGES)


@pytest.mark.parametrize("name", ["zh", "zh_CN", "zh-Hans", "zh_CN.UTF-8", " ZH "])
def test_a_locale_names_its_language(name: str) -> None:
    set_language(name)
    assert language() == "zh"


def test_the_session_goes_before_the_environment_and_that_before_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert language() == "en"
    configure("zh")
    assert language() == "zh"
    monkeypatch.setenv(VARIABLE, "en")
    assert language() == "en"
    set_language("zh")
    assert language() == "zh"


def test_an_unknown_language_is_an_error_that_names_those_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"(?s)no language called 'klingon'.*en, zh"):
        set_language("klingon")
    monkeypatch.setenv(VARIABLE, "xx")
    with pytest.raises(OptionError, match=r"(?s)PERFMAGIC_LANGUAGE.*'xx'.*en, zh"):
        language()


def test_a_text_equals_its_english_and_is_shown_in_the_language_in_force() -> None:
    words = phrase(IDLE, time="2 ms")
    set_language("zh")
    assert words == "The device stood idle for 2 ms"
    assert translated(words) == say(IDLE, time="2 ms") == BUSY
    set_language("en")
    assert translated(translated(words)) == words


def test_a_text_that_was_translated_goes_back() -> None:
    set_language("zh")
    shown = translated(phrase(IDLE, time="2 ms"))
    set_language("en")
    assert translated(shown) == "The device stood idle for 2 ms"


@pytest.mark.parametrize(("n", "english"), [(1, "1 launch"), (3000, "3,000 launches")])
def test_counted_nouns_have_one_and_many(n: int, english: str) -> None:
    words = counted(n, "{n} launch", "{n} launches")
    assert words == english
    set_language("zh")
    assert translated(words) == f"{n:,} 次启动"


def test_values_are_translated_with_the_text_around_them() -> None:
    words = phrase("Gradients are filled with zeros: {n}", n=counted(3, "{n} op", "{n} ops"))
    set_language("zh")
    assert translated(words) == "梯度被填零：3 个算子"


def test_a_sentence_begins_with_a_capital_letter() -> None:
    words = phrase("no gains: {why}", why=phrase("the cell failed")).capitalised()
    assert words == "No gains: the cell failed"
    set_language("zh")
    assert translated(words) == "没有收益：单元格出错了"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda words: pickle.loads(pickle.dumps(words))])
def test_a_copy_can_still_be_translated(copied: object) -> None:
    words = copied(phrase(IDLE, time="2 ms"))  # type: ignore[operator]
    set_language("zh")
    assert translated(words) == BUSY


@dataclass(frozen=True)
class Said(JsonForm):
    """Some texts."""

    one: str
    more: tuple[str, ...]
    n: int


def test_all_texts_of_an_object_are_translated_and_its_json_has_plain_ones() -> None:
    said = Said(phrase(IDLE, time="2 ms"), (phrase("both together"), "matmul"), 3)
    set_language("zh")
    shown = translated(said)
    assert shown == Said(BUSY, ("两项合计", "matmul"), 3)
    assert type(shown.to_dict()["one"]) is str


PRINTED = "from perfmagic.base.language import say; print(say('both together'))"


@pytest.mark.parametrize(("given", "printed"), [({}, "both together"), ({VARIABLE: "zh_CN.UTF-8"}, "两项合计")])
def test_the_environment_variable_chooses_and_the_locale_does_not(given: dict[str, str], printed: str) -> None:
    chinese = {"LANG": "zh_CN.UTF-8", "LC_ALL": "zh_CN.UTF-8", "LANGUAGE": "zh", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", PRINTED], env=os.environ | chinese | given, capture_output=True)
    assert done.stdout.decode().strip() == printed, done.stderr


def test_chinese_has_no_capital_at_the_beginning_of_a_sentence() -> None:
    said = capitalised(phrase("rank {n}", n=4))
    assert said == "Rank 4"
    set_language("zh")
    assert translated(said) == "rank 4"
