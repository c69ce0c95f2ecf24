"""In which language answers are shown: the code has English templates, perfmagic/locale their translations."""

from __future__ import annotations

import gettext
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial, reduce
from pathlib import Path
from string import Formatter
from typing import Any, TypeVar

from perfmagic.base.errors import OptionError
from perfmagic.base.units import count

T = TypeVar("T")
LANGUAGES = ("en", "zh")
VARIABLE = "PERFMAGIC_LANGUAGE"
DOMAIN = "perfmagic"
LOCALE = Path(__file__).parents[1] / "locale"
_ENGLISH = gettext.NullTranslations()
_REGION = re.compile(r"[-_.@].*")  # of a locale: the end of zh_CN.UTF-8

_chosen: list[str] = []  # in the session
_configured = ["en"]  # by a configuration file


def language() -> str:
    """The language in force. Raises OptionError where the environment names one that does not exist."""
    return _chosen[0] if _chosen else _checked(os.environ.get(VARIABLE, "") or _configured[0], VARIABLE)


def set_language(name: str) -> None:
    """Show answers of this process in a language: "en" or "zh". "zh_CN" is "zh".

    It goes before the environment variable PERFMAGIC_LANGUAGE. Raises OptionError for a language that does not exist.

    >>> perfmagic.set_language("en")
    """
    _chosen[:] = [_checked(name, "language")]


def configure(name: str) -> None:
    """Set the language that is in force where neither the session nor the environment names one."""
    _configured[:] = [_checked(name, "language")]


def _checked(name: str, where: str) -> str:
    code = _REGION.sub("", name.strip()).lower()
    if code not in LANGUAGES:
        raise OptionError(f"{where}: no language called {name!r}", hint=f"one of {', '.join(LANGUAGES)}")
    return code


class Words(str):
    """A text that can be translated: it equals its English, and knows template and values.

    Analyses compare and sort the English. What is shown goes through translated().
    """

    __slots__ = ("is_sentence", "many", "n", "template", "values")

    template: str
    many: str  # the template of several; "" where nothing is counted
    n: int
    values: dict[str, object]
    is_sentence: bool  # whether it begins with a capital letter, whatever the template does

    def capitalised(self) -> Words:
        """The same as the beginning of a sentence."""
        return _words(_ENGLISH, self.template, self.many, self.n, self.values, is_sentence=True)

    def in_language(self) -> Words:
        """The same in the language in force."""
        values = {key: translated(value) for key, value in self.values.items()}
        translations = _translations(language())
        return _words(translations, self.template, self.many, self.n, values, is_sentence=self.is_sentence)


def _words(
    translations: gettext.NullTranslations,
    template: str,
    many: str,
    n: int,
    values: dict[str, object],
    *,
    is_sentence: bool = False,
) -> Words:
    # gettext of "" is the catalogue's header
    form = translations.ngettext(template, many, n) if many else template and translations.gettext(template)
    text = form.format(**values) if translations is _ENGLISH else _spaced(form, values)
    words = Words(text[:1].upper() + text[1:] if is_sentence and translations is _ENGLISH else text)
    words.template, words.many, words.n, words.values, words.is_sentence = template, many, n, values, is_sentence
    return words


# patterns as text, compiled where a text is Chinese
_NARROW_BESIDE_HAN = r"(?a:[\u4e00-\u9fff][\w<.`]|[\w%)\]`][\u4e00-\u9fff])"
_WIDE = r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
_MARK = r"[\u3000-\u303f\uff00-\uffef]"


def _spaced(form: str, values: dict[str, object]) -> str:
    """The text with a space where a value of other letters meets Chinese ones, and none between Chinese ones."""
    pieces = (
        piece
        for literal, name, *_ in Formatter().parse(form)
        for piece in (literal, "" if name is None else str(values[name]))
    )
    return reduce(_join, filter(None, pieces), "")


def _join(left: str, right: str) -> str:
    mark, wide = partial(re.match, _MARK), partial(re.match, _WIDE)
    if left.endswith(" ") and (mark(right) or (wide(left[-2:-1]) and wide(right))):
        left = left[:-1]
    if right.startswith(" ") and (mark(left[-1:]) or (wide(left[-1:]) and wide(right[1:2]))):
        right = right[1:]
    return f"{left} {right}" if re.fullmatch(_NARROW_BESIDE_HAN, left[-1:] + right[:1]) else left + right


@cache
def _translations(code: str) -> gettext.NullTranslations:
    return _ENGLISH if code == "en" else gettext.translation(DOMAIN, LOCALE, [code])


def phrase(template: str, /, **values: object) -> Words:
    """A text with its values."""
    return _words(_ENGLISH, template, "", 1, values)


def counted(n: int, singular: str, plural: str, /, **values: object) -> Words:
    """A counted noun: (3, "{n} launch", "{n} launches") → "3 launches"."""
    return _words(_ENGLISH, singular, plural, n, {"n": count(n), **values})


def chained(template: str, parts: Iterable[str]) -> str:
    """Several texts as one, by a template for two of them: "{a} · {b}". Empty texts are left out."""
    known = [part for part in parts if part]
    return reduce(lambda a, b: phrase(template, a=a, b=b), known) if known else ""


def sentences(*facts: str) -> str:
    """One fact per sentence: "the device was busy. It waited"; the first goes on a line begun, the last has no stop."""
    known = [fact for fact in facts if fact]
    return chained("{a}. {b}", (*known[:1], *map(capitalised, known[1:])))


def listed(texts: Sequence[str]) -> str:
    """The texts as people list them: "a", "a and b", "a, b and c"."""
    return chained("{a} and {b}", (chained("{a}, {b}", texts[:-1]), *texts[-1:]))


def capitalised(text: str) -> str:
    """A text as it begins a sentence."""
    return text.capitalised() if isinstance(text, Words) else text[:1].upper() + text[1:]


def say(template: str, /, **values: object) -> str:
    """A text with its values, in the language in force."""
    return phrase(template, **values).in_language()


def translate_term(text: str) -> str:
    """A heading or a label in the language in force; one that the catalogue lacks stays as it is."""
    if isinstance(text, Words):
        return text.in_language()
    return _translations(language()).gettext(text) if text else text


def translated(value: T) -> T:
    """A text, a tuple or a dataclass with all texts in the language in force; what is no Words stays as it is."""
    given: Any = value
    shown: Any = value
    if isinstance(given, Words):
        shown = given.in_language()
    elif type(given) is tuple:
        shown = tuple(map(translated, given))
    elif is_dataclass(given) and not isinstance(given, type):
        shown = replace(given, **{field.name: translated(getattr(given, field.name)) for field in fields(given)})
    result: T = shown
    return result
