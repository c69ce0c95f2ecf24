"""What can be set, described once: keywords of functions, flags of magics and commands, the tables of docs/magics.md.

A family of options is a TypedDict. A function takes it as `**options: Unpack[Family]`, so mypy checks its callers. The
decorator keywords() gives it the signature and the docstring that users see.
"""

import inspect
import os
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, TypeVar, get_args, get_type_hints

from perfmagic.base.display import MODES
from perfmagic.base.language import LANGUAGES
from perfmagic.base.options import documented

if TYPE_CHECKING:
    import argparse

F = TypeVar("F", bound="Callable[..., Any]")

DEVICES = ("auto", "cuda", "sim", "cpu")
CLOCKS = ("real", "virtual")
RUNS, WARMUP = 3, 1  # of a sweep over ranks: the first run of a cell connects ranks and loads kernels
_NUMBERS = (int, float)
_LEFT_OUT = re.compile(r"\b(?:collections\.abc|typing|perfmagic[.\w]*)\.(?=\w)")  # in front of a type's name


@dataclass(frozen=True)
class Option:
    """One option of functions, magics and commands.

    help: what it does, in one clause.  default: what it is unless set; None where `unset` says what happens
    then.  unit: of the value, in the plural.  choices: the values that there are.
    metavar: what stands for the value behind a flag; "" for a flag without a value.
    short, alias: other spellings of the flag.  flag: what it does as a flag, where a keyword takes something else.
    more: what docs/magics.md adds, in Markdown.
    name, type: filled in from the family.
    """

    help: str
    default: Any = None
    unset: str = ""
    unit: str = ""
    choices: Sequence[str] | None = None
    metavar: str = ""
    short: str = ""
    alias: str = ""
    flag: str = ""
    more: str = ""
    name: str = ""
    type: Any = bool

    @property
    def flags(self) -> list[str]:
        """Its spellings as a flag."""
        long = f"--{self.name.replace('_', '-')}" if self.name else ""
        return [flag for flag in (self.short, long, self.alias) if flag]

    @property
    def default_text(self) -> str:
        """The default as people read it, "" where nothing is set."""
        if self.default is None or self.default in ("", ()):
            switch = bool(self.flag) and not self.metavar
            return self.unset or ("off" if switch else "")
        if isinstance(self.default, bool):
            return "on" if self.default else "off"
        number = isinstance(self.default, _NUMBERS)
        return " ".join(filter(None, (f"{self.default:g}" if number else str(self.default), self.unit)))

    def keyword_line(self, default: object) -> str:
        """A line on the keyword for a function's docstring."""
        unit = f", in {self.unit}" if self.unit else ""
        unset = f"; {default!r}: {self.unset}" if self.unset and default == self.default else ""
        return f"{self.name} (default {default!r}): {self.help}{unit}{unset}."

    def flag_help(self) -> str:
        """What `-h` says of the flag."""
        text = self.default_text
        return (self.flag or self.help) + (f" (default: {text})" if text not in ("", "off") else "")

    def table_row(self, flags: Sequence[str]) -> str:
        """The row of docs/magics.md.  flags: its spellings there, in which a switch that is on has two."""
        value = f" {self.metavar}".replace("|", r"\|") if self.metavar else ""
        names = ", ".join(f"`{flag}{value}`" for flag in flags)
        return f"| {names} | {self.default_text} | {self.flag or self.help}{self.more} |".replace("|  |", "| |")


def described(family: type) -> dict[str, Option]:
    """The options of a family by name."""
    options: dict[str, Option] = {}
    for name, hint in get_type_hints(family, include_extras=True).items():
        kind, option = get_args(hint)
        options[name] = replace(option, name=name, type=kind)
    return options


def keywords(
    family: type, *, intro: str = "Options:", form: str = "", without: Collection[str] = (), **defaults: object
) -> Callable[[F], F]:
    """Let a function with `**options: Unpack[family]` show each option, and get all of them with their defaults.

    intro, form: the first line of the docstring's list, and a call that works, for errors: see documented().
    without: options that the function does not have.  defaults: those that differ from the family's.
    """
    options = {name: option for name, option in described(family).items() if name not in without}
    values = {name: defaults.get(name, option.default) for name, option in options.items()}
    lines = [option.keyword_line(values[name]) for name, option in options.items()]
    wrapped = [textwrap.fill(line, 100, subsequent_indent="    ") for line in lines]

    def decorated(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        shown = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=values[name], annotation=_annotation(option, values[name])
            )
            for name, option in options.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
        return documented("\n".join([intro, "", *wrapped]), form=form, defaults=values)(function)

    return decorated


def _annotation(option: Option, default: object) -> str:
    """The type as it is written in source, with None where that is the default."""
    written = _LEFT_OUT.sub("", inspect.formatannotation(option.type))
    return f"{written} | None" if default is None and "None" not in written else written


def add_flag(parser: "argparse.ArgumentParser", option: Option, **changes: Any) -> "argparse.Action":
    """Let a parser accept an option.  changes: arguments of add_argument() that the description does not give."""
    from argparse import BooleanOptionalAction  # functions have no flags

    how: dict[str, Any] = {"help": option.flag_help().replace("%", "%%"), "default": option.default}
    if option.metavar:
        numbers = [kind for kind in _NUMBERS if kind in (option.type, *get_args(option.type))]
        how |= {"type": numbers[0] if numbers else str, "choices": option.choices, "metavar": option.metavar}
    else:
        how["action"] = BooleanOptionalAction if option.type == (bool | None) else "store_true"
    return parser.add_argument(*option.flags, **how | changes)


class ReadOptions(TypedDict, total=False):
    """How trace files are read."""

    comm_names: Annotated[
        str | None,
        Option(
            "a regular expression; kernels whose name it matches count as communication",
            unset="a built-in rule for known libraries",
            metavar="REGEX",
        ),
    ]
    # the same as trace.kineto.file.DEFAULT_LIMIT_BYTES, which loads numpy; a test compares them
    max_unpacked_bytes: Annotated[int, Option("refuse files that are larger when unpacked", 4 << 30, unit="bytes")]
    storage_options: Annotated[
        Mapping[str, Any] | None, Option('what fsspec needs for a URL, such as {"anon": True}', unset="nothing")
    ]


class DeviceOptions(TypedDict, total=False):
    """What is recorded, and whose functions count as the user's."""

    device: Annotated[
        str,
        Option(
            "what to record: `cuda`, `sim` or `cpu`; `auto` for the devices in use",
            "auto",
            choices=DEVICES,
            metavar="KIND",
        ),
    ]
    packages: Annotated[
        Sequence[str],
        Option(
            "installed packages whose functions are followed, too",
            (),
            metavar="NAMES",
            alias="--in",
            flag="installed packages whose functions are followed, too: `--in timm,mylib`",
        ),
    ]


class MemoryOptions(TypedDict, total=False):
    """What is recorded besides times."""

    memory: Annotated[
        bool,
        Option(
            "also record what is allocated on the devices over time", default=False, more=", see [memory](memory.md)"
        ),
    ]
    shapes: Annotated[
        bool,
        Option(
            "also record shapes and types of operators' inputs, for FLOP/s and the roofline; on a virtual clock always",
            default=False,
        ),
    ]


class CellOptions(MemoryOptions, total=False):
    """What is recorded of a cell."""

    lines: Annotated[
        bool | None,
        Option("also follow the lines of functions", unset="on, from Python 3.12", more=", see [lines](lines.md)"),
    ]


class RecordOptions(DeviceOptions, CellOptions, total=False):
    """What a timeline records."""

    on: Annotated[
        str | Sequence[str] | None,
        Option(
            "GPUs that are not here, `H100,A100,T4`: the code runs once, and each is predicted",
            metavar="GPU,…",
            more=", see [a GPU that is not there](simulated-device.md#a-gpu-that-is-not-there)",
        ),
    ]
    item: Annotated[
        float | None,
        Option(
            "the number that reads of values give that were not computed on these GPUs",
            metavar="NUMBER",
        ),
    ]


class TimelineOptions(RecordOptions, total=False):
    """What perfmagic.timeline() records, and which steps of a loop."""

    wait: Annotated[int, Option("training steps that are not recorded", 0)]
    warmup: Annotated[int, Option("further training steps that are not recorded", 0)]
    active: Annotated[int | None, Option("training steps to record after them", unset="to the end of the block")]
    out: Annotated[
        str | os.PathLike[str] | None,
        Option("the file to save the trace to; {rank} in its name is replaced by the rank", unset="no file"),
    ]


class RankDeviceOptions(TypedDict, total=False):
    """What ranks compute on."""

    device: Annotated[
        str,
        Option(
            "what each rank computes on: `cuda`, `sim` or `cpu`; `auto` for a GPU each where there are enough, else "
            "the simulated device",
            "auto",
            choices=DEVICES,
            metavar="KIND",
        ),
    ]
    backend: Annotated[
        str,
        Option(
            "the backend of torch.distributed",
            "",
            unset="what fits the device",
            metavar="NAME",
            more="; models that hold torch's own groups must be recreated after a failure",
        ),
    ]
    clock: Annotated[
        str,
        Option(
            "`virtual`: simulated devices, whose times are computed; `real`: times are measured",
            "",
            unset="as running ranks, else as the notebook",
            choices=("", *CLOCKS),
            metavar="real|virtual",
        ),
    ]


class RanksOptions(RankDeviceOptions, total=False):
    """Which ranks are asked for."""

    cluster: Annotated[
        str,
        Option(
            "a running ipyparallel cluster, with a rank beside each engine: its profile, its id, PROFILE/ID or its "
            "connection file; `local` is this machine",
            "",
            unset="the running ranks",
            metavar="NAME|FILE",
            more=". See [ranks.md](ranks.md)",
        ),
    ]


class RanksSweepOptions(RankDeviceOptions, MemoryOptions, total=False):
    """How a sweep over numbers of ranks is measured."""

    setup: Annotated[
        str, Option("code that runs first, behind the notebook's `%%ranks --setup` cells; not measured", "")
    ]
    strong: Annotated[
        bool,
        Option(
            "ranks share a fixed amount of work, which the code divides by world_size; else each has that amount",
            default=False,
            flag="in a sweep: ranks share a fixed amount of work, which the cell divides by `world_size`; else each "
            "has that amount",
        ),
    ]
    runs: Annotated[
        int,
        Option(
            "recorded runs for each number of ranks; the run of median time counts",
            RUNS,
            metavar="R",
            short="-r",
            flag="in a sweep: recorded runs for each number; the run of median time counts",
        ),
    ]
    warmup: Annotated[
        int,
        Option("runs before these; 0 for none", WARMUP, metavar="N", flag="in a sweep: runs before these; 0 for none"),
    ]


class Settings(TypedDict, total=False):
    """What `%config PerfmagicMagics` sets."""

    display: Annotated[
        str,
        Option(
            "What a result leaves in the notebook: auto, widget, static or html. PERFMAGIC_DISPLAY in the environment "
            "overrides the configuration file, and what is set in the session overrides both.",
            "auto",
            choices=MODES,
        ),
    ]
    language: Annotated[
        str,
        Option(
            "The language of answers: en or zh. PERFMAGIC_LANGUAGE in the environment overrides the configuration "
            "file, and what is set in the session overrides both.",
            "en",
            choices=LANGUAGES,
        ),
    ]
