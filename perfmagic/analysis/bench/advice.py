"""What a user could still do about a warning or an unclear comparison, in the words of whoever took the benchmark.

Nobody is told to do what was done already: who gave --time is not told to give it.
"""

from __future__ import annotations

from perfmagic.samples import Taken

FLAGS = {  # fields of perfmagic.capture.bench.spec.BenchSpec as the magics call them
    "samples": "-r",
    "calls": "-n",
    "time_s": "--time",
    "rel": "--rel",
    "warmup": "--warmup",
    "cold": "--cold",
    "cooldown_s": "--cooldown",
    "runs": "--runs",
    "setup_each": "--setup-each",
}
_DEFAULTS = {"runs": 1, "cooldown_s": 0.0}  # of the settings whose default is no None or False


def option(taken: Taken, setting: str, value: str) -> str:
    """A setting as whoever took the benchmark writes it: `--runs 5` for a magic, `runs=5` for a function.

    setting: a field of perfmagic.capture.bench.spec.BenchSpec.
    """
    if not taken.code:
        return f"{setting}={value}" + (", a function of yours," if setting == "setup_each" else "")
    return FLAGS[setting] if setting in ("setup_each", "cold") else f"{FLAGS[setting]} {value}"


class Advice:
    """What is left to do for one benchmark."""

    def __init__(self, taken: Taken) -> None:
        self.taken = taken
        self.interleaved = bool(taken.round_id)
        self._unavailable = ("runs",) if self.interleaved else ()  # interleaved benchmarks are one run
        if taken.code.startswith("%compare"):
            self._unavailable = (*self._unavailable, "setup_each")  # functions are called as they are

    def unless(self, setting: str, value: str, effect: str) -> str:
        """`: option effect`; empty where the user set that option or cannot set it."""
        default = _DEFAULTS.get(setting)
        given = self.taken.settings.get(setting, default)
        if setting in self._unavailable or (given != default and given is not False):
            return ""
        return f": {option(self.taken, setting, value)} {effect}"

    def longer(self) -> str:
        """The option that takes more samples than were taken, and what else makes an interval narrower."""
        samples = self.taken.settings.get("samples")
        if isinstance(samples, int):
            return f"a quieter machine or more samples help ({option(self.taken, 'samples', str(4 * samples))})"
        given_s = self.taken.settings.get("time_s")
        longer_s = 10 * given_s if isinstance(given_s, (int, float)) else 20
        return f"a quieter machine or more time helps ({option(self.taken, 'time_s', f'{longer_s:g}')})"
