"""What the notebook has and ranks have not: the commonest surprise of a first cell in ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from perfmagic.capture.ranks.failures import Failure
from perfmagic.errors import RanksError

_MISSING = re.compile(r"name '(\w+)' is not defined")


@contextmanager
def hinting(variables: Mapping[str, Any]) -> Iterator[None]:
    """Where ranks miss names that the notebook has, say so with what they raised.  variables: of the notebook."""
    try:
        yield
    except RanksError as error:
        missing = [
            found[1]
            for one in error.failures
            if isinstance(one, Failure) and one.type == "NameError" and (found := _MISSING.match(one.text))
        ]
        hints = [_hint(name, variables[name]) for name in dict.fromkeys(missing) if name in variables]
        if hints:
            error.message = "\n".join([error.message, *hints])
        raise


def _hint(name: str, value: object) -> str:
    where = f"the notebook has {name}, and ranks have variables of their own"
    if isinstance(value, ModuleType):
        return f"{where}: import it in a %%ranks --setup cell"
    if callable(value) and getattr(value, "__module__", "") == "__main__":  # pickled by name, which ranks lack
        return f"{where}: define it in a %%ranks --setup cell"
    return f"{where}: %ranks push {name}"
