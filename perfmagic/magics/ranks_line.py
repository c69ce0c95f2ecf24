"""%ranks: which processes run?   restart, stop, push NAME, pull NAME, forget: end them, exchange variables."""

from __future__ import annotations

from typing import Any

from perfmagic.errors import OptionError
from perfmagic.magics.running.options import Parser
from perfmagic.rank_sessions import Ranks, current, forget_setup

_USES = "%ranks, %ranks restart, %ranks stop, %ranks push NAME…, %ranks pull NAME…, %ranks forget"


def parser() -> Parser:
    """The options of %ranks."""
    return Parser(
        "%ranks",
        "The processes that %%ranks runs its cells in: where they stand; push gives them variables, pull gets a list "
        "with the value of each rank.",
        form="[restart|stop|push NAME…|pull NAME…|forget]",
    )


def run(shell: Any, line: str) -> None:
    """Do what the line says."""
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return
    verb, *names = rest.split() or ["status"]
    if rest == "forget":
        forget_setup()
        return
    found = current()
    if found is None:
        if verb == "status":
            print("no ranks run; %%ranks -n 4 starts some")
            return
        raise OptionError(f"%ranks {verb}: no ranks run", hint="%%ranks -n 4 starts some")
    if verb in ("push", "pull"):
        _exchange(shell, found, verb, names)
    elif names or verb not in ("status", "restart", "stop"):
        raise OptionError(f"%ranks knows no {rest!r}", hint=_USES)
    elif verb == "restart":
        found.restart()
        print(found.status())
    elif verb == "stop":
        found.stop()
    else:
        print(found.status())


def _exchange(shell: Any, found: Ranks, verb: str, names: list[str]) -> None:
    if not names:
        raise OptionError(f"%ranks {verb}: no name given", hint=f"%ranks {verb} data")
    wrong = [name for name in names if not name.isidentifier() or (verb == "push" and name not in shell.user_ns)]
    if wrong:
        are = "there is no variable" if len(wrong) == 1 else "there are no variables"
        where = " in the notebook" if verb == "push" else ""
        raise OptionError(f"%ranks {verb}: {are} {', '.join(wrong)}{where}", hint=_USES)
    if verb == "push":
        found.push(**{name: shell.user_ns[name] for name in names})
    else:
        shell.user_ns.update({name: found[name] for name in names})
