"""The first line of a magic: options, then set-up code (cell form) or the statement (line form).

Only leading options are parsed; the rest is the user's code and is never split or unquoted.
"""

from __future__ import annotations

import argparse
import itertools
import keyword
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from perfmagic.api.benchmarks import SamplingOptions, bench_settings
from perfmagic.api.options import Option, add_flag, described
from perfmagic.api.same_work import CheckOptions
from perfmagic.base.errors import OptionError
from perfmagic.base.options import as_fraction, did_you_mean, first_time

_SAMPLING = ("calls", "samples", "time", "rel", "warmup", "cold", "cooldown")
_CHECKS = ("inputs", "fixed", "values", "dtype", "random", "check", "limit")
QUIET = Option("show nothing; `perfmagic.last()` has the result", default=False, name="quiet", short="-q")
MOST_VALUES = 1000  # of a sweep; at the 0.2 s of the shortest warm-up it takes minutes
PERCENT_ONCE = 0.1  # a share without % from here on may have been meant as percent, as it was before
_TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|\S+)""")


class Parser(argparse.ArgumentParser):
    """argparse for a magic: errors are raised in one line, and `-h` is an ordinary flag.

    described: the other options, for the tables of docs/magics.md.
    """

    def __init__(self, name: str, summary: str, *, form: str) -> None:
        usage = f"{name} [options] {form}"
        if name.startswith("%%"):  # a cell magic measures one statement in its line form
            usage += f"\n       {name[1:]} [options] statement"
        super().__init__(prog=name, description=summary, add_help=False, usage=usage.replace("%", "%%"))
        self.described: list[tuple[argparse.Action, Option]] = []
        self.add_argument("-h", "--help", action="store_true", help="show this help and run nothing")

    def add(self, option: Option, **changes: Any) -> None:
        """Accept an option.  changes: see add_flag()."""
        self.described.append((add_flag(self, option, **changes), option))

    def add_keywords(self, family: type, *names: str, **changes: Callable[[str], Any]) -> None:
        """Accept some keywords of functions as flags.  changes: what reads the text of a flag, by its name."""
        options = described(family)
        for name in names:
            self.add(options[name], **({"type": changes[name]} if name in changes else {}))

    def add_sampling(self) -> None:
        """Accept what all magics share that measure functions: how many samples, of what. None where not given."""
        self.add_keywords(SamplingOptions, *_SAMPLING, rel=share)
        self.set_defaults(**dict.fromkeys(_SAMPLING))

    def add_checks(self) -> None:
        """Accept the options of the check that functions do the same work. None where not given."""
        self.add_keywords(CheckOptions, *_CHECKS, inputs=str, fixed=numbers)
        self.set_defaults(**dict.fromkeys(_CHECKS))

    def add_name(self, what: str = "the result") -> None:
        """Accept `-o NAME`: where the result goes."""
        option = Option(f"bind {what} to this name", short="-o", metavar="NAME", type=str)
        self.add(option, dest="variable", type=python_name)

    def error(self, message: str) -> NoReturn:
        known = [name for action in self._actions for name in action.option_strings]
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0].partition("=")[0]
        meant = did_you_mean(unknown, known, cutoff=0.75)
        raise OptionError(f"{self.prog}: {message}", hint=f"{meant}{self.prog} -h lists the options")

    def split(self, text: str) -> tuple[argparse.Namespace, str]:
        """The options at the front of text, parsed, and the code after them.

        Raises OptionError for an unknown option or a value that does not fit; `--` ends the options.
        """
        words: list[str] = []
        at = 0
        while (match := _TOKEN.match(text, at)) and match[1].startswith("-") and match[1] != "-":
            at = match.end()
            if match[1] == "--":
                break
            words.append(match[1])
            if self._wants_value(match[1]) and (value := _TOKEN.match(text, at)):
                words.append(_unquoted(value[1]))
                at = value.end()
        return self.parse_args(words), text[at:].strip()

    def split_words(self, line: str) -> argparse.Namespace:
        """The options of a line of names, before, between and behind them; names with spaces in quotes."""
        try:
            words = shlex.split(line)
        except ValueError:  # a quote without its other one belongs to a name: it's.json
            words = line.split()
        return self.parse_intermixed_args(words)

    def _wants_value(self, word: str) -> bool:
        """Whether an option's value is the next word (`-n 5`) and not part of this one (`--time=2`, `-n5`)."""
        if "=" in word:
            return False
        action = next((a for a in self._actions if word in a.option_strings), None)
        return action is not None and action.nargs is None  # a flag has nargs 0


def sampling(options: argparse.Namespace) -> dict[str, Any]:
    """The sampling options that a line gives, as BenchSpec fields."""
    given = {name: getattr(options, name) for name in _SAMPLING}
    return bench_settings({name: value for name, value in given.items() if value is not None})


def share(text: str) -> float:
    """`1%` and `0.01` as a fraction; raises ArgumentTypeError for anything else.

    Older versions read a number without % as percent. From 1 on it still is; below 1 it is a fraction. A line says so.
    """
    try:
        fraction = float(as_fraction(text))
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error).replace("\n", ". ")) from None
    percent = fraction >= 1 and "%" not in text
    fraction = fraction / 100 if percent else fraction
    if not 0 < fraction < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 100 %")
    if (percent or (fraction >= PERCENT_ONCE and "%" not in text)) and first_time(f"percent of {text}"):
        read_as = f"is taken as {100 * fraction:g} %; write {100 * fraction:g}% or {fraction:g}"
        print(f"perfmagic: {text} {read_as}", file=sys.stderr)
    return fraction


def path_to_write(text: str) -> str:
    """A file or folder to write to; raises ArgumentTypeError for no name at all, as an empty shell variable gives."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty")
    return text


def python_name(text: str) -> str:
    """A word that can be assigned to; raises ArgumentTypeError for others, such as 1x."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a Python name")
    return text


@dataclass(frozen=True)
class Sweep:
    """`--sweep NAME=A,B,C`: a variable of the notebook and the values it takes, still as text."""

    name: str
    text: str

    def values(self, namespace: dict[str, Any]) -> list[Any]:
        """The values: A,B,C, or a comprehension such as 2**k for k in range(5, 11), or one sequence.

        Raises OptionError for text that is no such thing, for fewer than two values, and for more than MOST_VALUES.
        """
        try:
            values = list(eval(f"[{self.text}]", namespace))  # the user's own expression, as typed
        except Exception as error:  # noqa: BLE001 - whatever the user's expression raises
            reason = error.msg if isinstance(error, SyntaxError) else f"{type(error).__name__}: {error}"
            raise OptionError(
                f"--sweep {self.name}={self.text}: {reason}",
                hint="values as in a Python list, n=256,512,1024, or one sequence, n=range(1,9)",
            ) from None
        if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], str):
            values = list(itertools.islice(values[0], MOST_VALUES + 1))  # it may have no end
        if len(values) > MOST_VALUES:
            raise OptionError(f"--sweep {self.name}={self.text}: more than {MOST_VALUES:,} values")
        if len(values) < 2:
            raise OptionError(f"--sweep {self.name}={self.text}: {len(values)} value, at least two are needed")
        return values


def parse_sweep(text: str) -> Sweep:
    """`n=1,2,3` as a Sweep; raises ArgumentTypeError for text without a name and values."""
    name, equals, values = text.partition("=")
    if values.rstrip().endswith(","):
        raise argparse.ArgumentTypeError(f"{text!r} ends in a comma: no spaces between values")
    if not equals or not values.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=A,B,C")
    return Sweep(python_name(name.strip()), values.strip())


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) >= 2 and word[0] == word[-1] and word[0] in "\"'" else word


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them. Raises OptionError for other text."""
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise OptionError(f"--fixed {text}: argument numbers are needed", hint="--fixed 1,2") from None


def given_checks(options: argparse.Namespace, names: Mapping[str, Any]) -> dict[str, Any]:
    """The options of add_checks(), with what `--inputs` names: a function, a list, or `x,w`. Raises OptionError."""
    given = {name: getattr(options, name) for name in _CHECKS}
    if given["inputs"] is None:
        return given
    asked = str(given["inputs"]).split(",")
    if missing := next((name for name in asked if name not in names), ""):
        raise OptionError(f"--inputs {given['inputs']}: there is no variable {missing}", hint="--inputs x,w")
    values = [names[name] for name in asked]
    alone = len(values) == 1 and (callable(values[0]) or isinstance(values[0], (list, tuple)))
    return given | {"inputs": values[0] if alone else values}
