"""What a user could still do about a warning or an unclear comparison, in the words of whoever took the benchmark.

Nobody is told to do what was done already: who gave --time is not told to give it.
"""

from __future__ import annotations

from perfmagic.flags import option
from perfmagic.samples import Taken

MORE = 4  # times as many samples: an interval half as wide
_DEFAULTS = {"runs": 1, "cooldown_s": 0.0}  # of the settings whose default is no None or False


class Advice:
    """What is left to do for one benchmark."""

    def __init__(self, taken: Taken) -> None:
        self.taken = taken
        self.interleaved = bool(taken.round_id)
        self._unavailable = ("runs",) if self.interleaved else ()  # interleaved benchmarks are one run
        if taken.magic == "%compare":
            self._unavailable = (*self._unavailable, "setup_each")  # functions are called as they are

    def unless(self, setting: str, value: str, effect: str) -> str:
        """`: option effect`; empty where the user set that option or cannot set it."""
        default = _DEFAULTS.get(setting)
        given = self.taken.settings.get(setting, default)
        if setting in self._unavailable or (given != default and given is not False):
            return ""
        function = ", a function of yours," if setting == "setup_each" and not self.taken.magic else ""
        return f": {self.option(setting, value)}{function} {effect}"

    def option(self, setting: str, value: object = "") -> str:
        """An option as whoever took the benchmark writes it.  setting: a field of BenchSpec."""
        return option(self.taken.magic, setting, value)

    def longer(self, n: int) -> str:
        """The option that takes more than n samples, and what else makes an interval narrower.

        No time is advised: a time that is given ends sampling for other reasons too, and may take fewer.
        """
        return f"a quieter machine or more samples help ({self.option('samples', _rounded_up(MORE * n))})"


def _rounded_up(n: int) -> int:
    """To two digits."""
    unit: int = 10 ** max(0, len(str(n)) - 2)
    return -(-n // unit) * unit
