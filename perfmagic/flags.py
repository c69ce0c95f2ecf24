"""An option in the words of whoever set it: a magic's flag (`-r 20`) or a function's keyword (`samples=20`)."""

from __future__ import annotations

FLAGS = {  # fields of perfmagic.capture.bench.spec.BenchSpec as the magics call them; the others have no flag
    "samples": "-r",
    "calls": "-n",
    "time_s": "--time",
    "rel": "--rel",
    "warmup": "--warmup",
    "cold": "--cold",
    "cooldown_s": "--cooldown",
    "runs": "--runs",
    "flop": "--flops",
    "moved_bytes": "--bytes",
    "setup_each": "--setup-each",
}
_SWITCHES = ("cold", "setup_each")  # flags without a value
# what a magic and a function of the same effect are called
_CALLED = {
    "bench --vs": ("--vs", "perfmagic.compare(f, g)"),
    "syncbench": ("%%syncbench", "perfmagic.syncbench"),
    "timeline": ("%%timeline", "perfmagic.timeline"),
}


def option(magic: str, setting: str, value: object = "") -> str:
    """One option with a value, or its name alone.

    magic: that was used, such as "%%bench"; "" for a function.  setting: a field of BenchSpec.
    """
    flag = FLAGS.get(setting) if magic else None
    if flag is None:
        return f"{setting}={value}" if value != "" else setting
    if setting == "rel" and isinstance(value, float):
        value = f"{100 * value:g}"  # a fraction for functions, percent for magics
    return flag if setting in _SWITCHES or value == "" else f"{flag} {value}"


def options(magic: str, **values: object) -> str:
    """Several options as they stand beside each other: "--cold -n 5" or "cold=True, calls=5"."""
    return (" " if magic else ", ").join(option(magic, setting, value) for setting, value in values.items())


def called(magic: str, what: str) -> str:
    """What does the same elsewhere, as a magic or as a function.  what: one of those above."""
    return _CALLED[what][0 if magic else 1]
