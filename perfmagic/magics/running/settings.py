"""`%config PerfmagicMagics`, and `c.PerfmagicMagics` in ipython_config.py: the settings of the extension."""

from __future__ import annotations

import sys
from typing import Any

from traitlets import Enum, TraitError
from traitlets.config import Configurable

from perfmagic.api.options import Settings, described
from perfmagic.base.display import choose, configure, display_mode

_DISPLAY = described(Settings)["display"]


class DisplayEnum(Enum):  # type: ignore[type-arg]  # the oldest traitlets has no generic one
    """The mode in force. base.display keeps it for scripts and `%perfmagic display`, too."""

    def get(self, obj: Any, cls: Any = None) -> str:
        return display_mode()

    def set(self, obj: Any, value: Any) -> None:
        (choose if obj.loaded else configure)(str(self._validate(obj, value)))


class PerfmagicMagics(Configurable):
    """How perfmagic's magics behave."""

    loaded = False  # until then the configuration file sets

    display = DisplayEnum(_DISPLAY.choices, default_value=_DISPLAY.default, help=_DISPLAY.help).tag(config=True)

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
    configure("auto")
