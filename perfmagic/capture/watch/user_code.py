"""Whose code is it: the user's, or a library's."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CodeType

from perfmagic.base.errors import OptionError

_OURS = str(Path(__file__).resolve().parents[2]) + os.sep
CELL_FILES = "<ipython-input"  # what IPython called cells before it gave them paths


class UserCode:
    """Says of a code object whether it is the user's.

    That is what a cell holds, and every file outside of the standard library, of installed packages and of perfmagic.
    packages: names of installed packages that count as the user's, too. Raises OptionError for an unknown one.
    Code without a file (`exec` of a string, generated code) has no owner.
    """

    def __init__(self, packages: Iterable[str] = ()) -> None:
        self._added = tuple(folder for name in packages for folder in _folders(name))
        self._known: dict[str, bool] = {}

    def __call__(self, code: CodeType) -> bool:
        """Whether a code object is the user's."""
        name = code.co_filename
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._is_users(name)
        return known

    def _is_users(self, name: str) -> bool:
        if name.startswith("<"):
            return name.startswith(CELL_FILES)
        both = _spellings(name)
        if any(part.startswith(self._added) for part in both):
            return True
        return not any(part.startswith((_OURS, *_libraries())) for part in both)


@cache
def _libraries() -> tuple[str, ...]:
    """Folders of what is installed, each with a separator at its end."""
    named = [sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    named += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    # packages that a developer has installed from their sources are still no code of the notebook
    named += [str(Path(f).parent) for n in ("torch", "IPython") if (f := getattr(sys.modules.get(n), "__file__", None))]
    return tuple({form + os.sep for path in named for form in _spellings(path)})


def _spellings(path: str) -> tuple[str, str]:
    """A path as it is written, and with its links followed."""
    return str(Path(path).absolute()), os.path.realpath(path)


def _folders(package: str) -> list[str]:
    """Where a package lies, in both spellings of the path. Raises OptionError where there is none of that name."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or (spec.origin is None and not spec.submodule_search_locations):
        raise OptionError(f"--in: there is no package {package!r} here", hint="its name as in `import`, e.g. --in timm")
    places = list(spec.submodule_search_locations or ())
    paths = [place + os.sep for place in places] or [str(spec.origin)]
    return [form for path in paths for form in (path, os.path.realpath(path) + (os.sep if places else ""))]
