"""What is sent to ranks: variables of the notebook or script."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from perfmagic.errors import OptionError


def pickled_together(values: Mapping[str, Any]) -> bytes:
    """A list of the values, what they share once. Raises OptionError that names each which cannot be pickled."""
    try:
        return pickle.dumps(list(values.values()))
    except Exception:  # noqa: BLE001 - whatever the values' own code raises
        refused = {name: why for name, value in values.items() if (why := _why_not(value))}
    modules = [name for name, value in values.items() if isinstance(value, ModuleType)]
    hint = "what can be pickled can be sent: data, functions of modules"
    if modules:
        hint = f"%%ranks --setup with `import {values[modules[0]].__name__}` gives ranks a module; {hint}"
    # one of them changed its mind, or they can only be pickled apart
    words = "; ".join(f"{name} {why}" for name, why in refused.items()) or ", ".join(values) + " cannot be pickled"
    raise OptionError(words, hint=hint) from None


def _why_not(value: Any) -> str:
    """Why a value cannot be sent, "" where it can be."""
    if isinstance(value, ModuleType):
        return "is a module"
    try:
        pickle.dumps(value)
    except Exception as error:  # noqa: BLE001 - as above
        return f"cannot be pickled ({type(error).__name__}: {error})"
    return ""
