"""%ranks: which processes run?   restart, stop, push NAME, pull NAME, forget: end them, exchange variables."""

from __future__ import annotations

from typing import Any

from perfmagic.api.ranks.session import Ranks, current, forget_setup
from perfmagic.base.errors import OptionError
from perfmagic.base.options import did_you_mean
from perfmagic.magics.running.options import Parser

_VERBS = ("restart", "stop", "push", "pull", "forget")
_USES = "%ranks, %ranks restart, %ranks stop, %ranks push NAME…, %ranks pull NAME…, %ranks forget"


def parser() -> Parser:
    """The options of %ranks."""
    return Parser(
        "%ranks",
        "The processes that %%ranks runs its cells in, and their state; push gives them variables, pull gets a list "
        "with the value of each rank.",
        form="[restart|stop|push NAME…|pull NAME…|forget]",
    )


def run(shell: Any, line: str) -> None:
    """Run the verb that the line names."""
    options, rest = parser().split(line)
    if options.help:
        print(parser().format_help())
        return
    verb, *names = rest.split() or ["status"]
    if rest == "forget":
        forget_setup()
        return
    ranks = current()
    if ranks is None:
        if verb == "status":
            print("no ranks are running; %%ranks -n 4 starts some")
            return
        if verb not in _VERBS:
            raise OptionError(f"%ranks knows no {rest!r}", hint=f"{did_you_mean(verb, _VERBS)}{_USES}")
        raise OptionError(f"%ranks {verb}: no ranks are running", hint="%%ranks -n 4 starts some")
    if verb in ("push", "pull"):
        _exchange(shell, ranks, verb, names)
    elif names or verb not in ("status", "restart", "stop"):
        raise OptionError(f"%ranks knows no {rest!r}", hint=f"{did_you_mean(verb, _VERBS)}{_USES}")
    elif verb == "restart":
        ranks.restart()
        print(ranks.status())
    elif verb == "stop":
        ranks.stop()
    else:
        print(ranks.status())


def _exchange(shell: Any, ranks: Ranks, verb: str, names: list[str]) -> None:
    if not names:
        raise OptionError(f"%ranks {verb}: no name given", hint=f"%ranks {verb} data")
    wrong = [name for name in names if not name.isidentifier() or (verb == "push" and name not in shell.user_ns)]
    if wrong:
        are = "there is no variable" if len(wrong) == 1 else "there are no variables"
        where = " in the notebook" if verb == "push" else ""
        raise OptionError(f"%ranks {verb}: {are} {', '.join(wrong)}{where}", hint=_USES)
    if verb == "push":
        ranks.push(**{name: shell.user_ns[name] for name in names})
    else:
        shell.user_ns.update({name: ranks[name] for name in names})
