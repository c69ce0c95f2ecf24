"""The first line of a magic: options, then set-up code (cell form) or the statement (line form).

Only the leading options are taken; the rest is the user's code and is never split or unquoted.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import keyword
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from perfmagic.errors import OptionError

MOST_VALUES = 1000  # of a sweep; at the 0.2 s of the shortest warm-up it takes minutes
_TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|\S+)""")


class Parser(argparse.ArgumentParser):
    """argparse for a magic: errors are raised in one line, and `-h` is an ordinary flag."""

    def __init__(self, name: str, summary: str, *, form: str) -> None:
        usage = f"{name} [options] {form}"
        if name.startswith("%%"):  # a cell magic measures one statement in its line form
            usage += f"\n       {name[1:]} [options] statement"
        super().__init__(prog=name, description=summary, add_help=False, usage=usage.replace("%", "%%"))
        self.add_argument("-h", "--help", action="store_true", help="show this help and run nothing")

    def error(self, message: str) -> NoReturn:
        known = [name for action in self._actions for name in action.option_strings]
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0].partition("=")[0]
        nearest = difflib.get_close_matches(unknown, known, n=1, cutoff=0.75)
        meant = f"did you mean {nearest[0]}? " if nearest else ""
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


def add_name_option(parser: Parser) -> None:
    """`-o NAME`: where the result goes."""
    parser.add_argument("-o", dest="name", metavar="NAME", type=python_name, help="bind the result to this name")


def add_sampling_options(parser: Parser) -> None:
    """How many samples, of what: the options that all benchmarks share."""
    parser.add_argument(
        "-n", type=int, metavar="N", help="calls back to back in one sample (default: as many as the clock needs)"
    )
    parser.add_argument(
        "-r",
        type=int,
        metavar="R",
        help="take exactly R samples (default: until the 95 %% confidence interval is narrow enough)",
    )
    parser.add_argument(
        "--time",
        type=float,
        metavar="S",
        help="seconds to sample, for each variant and value (default 2); at least 20 samples are taken, 10 of calls "
        "above 50 ms, 3 above 0.5 s",
    )
    parser.add_argument(
        "--rel",
        type=float,
        metavar="P",
        help="stop when the 95 %% confidence interval of the median is within ± P %% (default 1)",
    )
    parser.add_argument(
        "--warmup", type=int, metavar="N", help="calls before the samples, 0 for none (default: until the times settle)"
    )
    parser.add_argument("--cold", action="store_true", help="overwrite the caches before each sample")
    parser.add_argument("--cooldown", type=float, metavar="S", help="rest S seconds before each sample")


def sampling(options: argparse.Namespace) -> dict[str, Any]:
    """The sampling options that were given, as BenchSpec fields. Raises OptionError for an invalid percentage."""
    if options.rel is not None and not 0 < options.rel < 100:
        raise OptionError(f"--rel {options.rel:g}: a percentage between 0 and 100 is needed, 1 for ± 1 %")
    given = {
        "samples": options.r,
        "calls": options.n,
        "time_s": options.time,
        "rel": options.rel / 100 if options.rel is not None else None,
        "warmup": options.warmup,
        "cold": options.cold or None,
        "cooldown_s": options.cooldown,
    }
    return {name: value for name, value in given.items() if value is not None}


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
            found = list(eval(f"[{self.text}]", namespace))  # the user's own expression, as typed
        except Exception as error:  # noqa: BLE001 - whatever the user's expression raises
            words = error.msg if isinstance(error, SyntaxError) else f"{type(error).__name__}: {error}"
            raise OptionError(
                f"--sweep {self.name}={self.text}: {words}",
                hint="values as in a Python list, n=256,512,1024, or one sequence, n=range(1,9)",
            ) from None
        if len(found) == 1 and isinstance(found[0], Iterable) and not isinstance(found[0], str):
            found = list(itertools.islice(found[0], MOST_VALUES + 1))  # it may have no end
        if len(found) > MOST_VALUES:
            raise OptionError(f"--sweep {self.name}={self.text}: more than {MOST_VALUES:,} values")
        if len(found) < 2:
            raise OptionError(f"--sweep {self.name}={self.text}: {len(found)} value, at least two are needed")
        return found


def sweep_of(text: str) -> Sweep:
    """`n=1,2,3` as a Sweep; raises ArgumentTypeError for text without a name and values."""
    name, equals, values = text.partition("=")
    if values.rstrip().endswith(","):
        raise argparse.ArgumentTypeError(f"{text!r} ends in a comma: no spaces between values")
    if not equals or not values.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=A,B,C")
    return Sweep(python_name(name.strip()), values.strip())


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) >= 2 and word[0] == word[-1] and word[0] in "\"'" else word
