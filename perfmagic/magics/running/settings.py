"""`%config PerfmagicMagics`, and `c.PerfmagicMagics` in ipython_config.py: the settings of the extension."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from traitlets import Enum, TraitError
from traitlets.config import Configurable

from perfmagic.api.options import Settings, described
from perfmagic.base import display as base_display
from perfmagic.base import language as base_language

_SETTINGS = described(Settings)


class Kept(Enum):  # type: ignore[type-arg]  # the oldest traitlets has no generic one
    """A setting that a module of base keeps, for scripts and `%perfmagic`, too.

    in_force: the value.  choose: for the session.  configure: for a configuration file.
    """

    def __init__(
        self, name: str, in_force: Callable[[], str], choose: Callable[[str], None], configure: Callable[[str], None]
    ) -> None:
        option = _SETTINGS[name]
        super().__init__(option.choices, default_value=option.default, help=option.help)
        self._in_force, self._choose, self._configure = in_force, choose, configure
        self.tag(config=True)

    def get(self, obj: Any, cls: Any = None) -> str:
        return self._in_force()

    def set(self, obj: Any, value: Any) -> None:
        (self._choose if obj.loaded else self._configure)(str(self._validate(obj, value)))


class PerfmagicMagics(Configurable):
    """How perfmagic's magics behave."""

    loaded = False  # until then the configuration file sets

    display = Kept("display", base_display.display_mode, base_display.choose, base_display.configure)
    language = Kept("language", base_language.language, base_language.set_language, base_language.configure)

    def __init__(self, shell: Any) -> None:
        try:
            super().__init__(parent=shell)
        except TraitError as error:  # a mistyped setting must not cost the magics
            print(f"perfmagic: {error}", file=sys.stderr)
        self.loaded = True


def add_settings(shell: Any) -> None:
    """Let `%config` list and set them."""
    shell.configurables.append(PerfmagicMagics(shell))


def remove_settings(shell: Any) -> None:
    """Let `%config` know none of it."""
    shell.configurables[:] = [
        configurable
        for configurable in shell.configurables
        if type(configurable).__name__ != PerfmagicMagics.__name__  # by name: a reload makes another class
    ]
    base_display.configure("auto")
    base_language.configure("en")
