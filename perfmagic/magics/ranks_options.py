"""The options of %%ranks."""

from __future__ import annotations

import argparse

from perfmagic.errors import OptionError
from perfmagic.magics.running.options import Parser, add_name_option, sweep_of
from perfmagic.rank_sessions import DEVICES


def parser() -> Parser:
    """The options of %%ranks."""
    made = Parser("%%ranks", "This cell in several processes, recorded, with one picture of all.", form="")
    made.usage = "%%%%ranks [options]\n       %%%%ranks --sweep n=A,B,C [options] [set-up code]"
    made.add_argument("-n", type=int, metavar="N", help="how many processes; they stay, with their variables")
    made.add_argument("--plain", action="store_true", help="run the cell, and record nothing")
    made.add_argument("--setup", action="store_true", help="the same, and run it first whenever ranks start anew")
    made.add_argument("--on", metavar="RANKS", help="run it in these ranks alone: 0,2 or 0-2")
    made.add_argument("--device", default="auto", choices=DEVICES, help="what each rank computes on")
    made.add_argument("--backend", default="", metavar="NAME", help="of torch.distributed (default: what fits)")
    made.add_argument("--cluster", default="", metavar="NAME|FILE", help="beside ipyparallel's engines; or: local")
    made.add_argument("--memory", action="store_true", help="also record what is allocated on the devices over time")
    made.add_argument("--shapes", action="store_true", help="also record shapes and types of operators' inputs")
    made.add_argument(
        "--lines",
        action=argparse.BooleanOptionalAction,
        help="also follow the lines of functions (default: on Python 3.12 and later)",
    )
    made.add_argument(
        "--sweep", type=sweep_of, metavar="n=A,B,C", help="the cell on each number of ranks, in processes of their own"
    )
    made.add_argument("--strong", action="store_true", help="of a sweep: all ranks share one work (default: weak)")
    made.add_argument("-r", type=int, metavar="R", help="of a sweep: recorded runs; the median counts (default 3)")
    made.add_argument("--warmup", type=int, metavar="N", help="of a sweep: runs before these, 0 for none (default 1)")
    add_name_option(made)
    made.add_argument("-q", dest="quiet", action="store_true", help="show no picture; perfmagic.last() has the result")
    made.add_argument("--save", metavar="DIR", help="also save each rank's trace there, as rank0.json.gz …")
    return made


def refuse_body(source: str) -> None:
    """Raises OptionError for a cell without code, and for one with another %%ranks below the first."""
    rows = [row for row in source.strip().splitlines()[1:] if row.strip() and not row.lstrip().startswith("#")]
    if not rows:
        raise OptionError("%%ranks: the cell is empty, there is nothing to run", hint="put code below the magic")
    if rows[0].split()[0] == "%%ranks":
        raise OptionError("%%ranks below %%ranks: one is enough", hint="put the options of both in the first line")


def refuse_options_of_sweeps(options: argparse.Namespace) -> None:
    """Raises OptionError where one is given without a sweep."""
    for_sweeps = {"--strong": options.strong, "-r": options.r is not None, "--warmup": options.warmup is not None}
    if given := next((name for name, is_given in for_sweeps.items() if is_given), ""):
        raise OptionError(f"%%ranks {given}: for sweeps", hint=f"%%ranks --sweep n=1,2,4 {given}")


def refuse_options_of_records(options: argparse.Namespace) -> None:
    """Raises OptionError where one is given with a cell that records nothing."""
    plain = "--setup" if options.setup else "--plain" if options.plain else ""
    for_records = {
        "-o": bool(options.name),
        "--save": options.save is not None,
        "--memory": options.memory,
        "--shapes": options.shapes,
        "--lines": options.lines is not None,
    }
    given = next((name for name, is_given in for_records.items() if is_given), "")
    if plain and given:
        words = f"%%ranks {plain} {given}: such a cell records nothing, so there is no result"
        raise OptionError(words, hint=f"leave {given} out here, and put it on a cell without {plain}")


def chosen(words: str | None) -> list[int] | None:
    """`0,2` and `0-2` as numbers. Raises OptionError for anything else."""
    if words is None:
        return None
    found: set[int] = set()
    for part in words.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise OptionError(f"%%ranks --on {words}: {part!r} names no rank", hint="%%ranks --on 0,2")
        found.update(range(int(first), int(last if dash else first) + 1))
    return sorted(found)
