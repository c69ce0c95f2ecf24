"""What lessons share: guesses before a measurement, and graders of exercises that judge a recorded timeline."""

from perfmagic.lessons.bars import bars
from perfmagic.lessons.checks import (
    NotYet,
    at_work,
    behind,
    check,
    close,
    overlap,
    python_waits,
    race_free,
    record,
    require,
    same_work,
    waits,
)
from perfmagic.lessons.guesses import guess, reveal

__all__ = [
    "NotYet", "at_work", "bars", "behind", "check", "close", "guess", "overlap", "python_waits", "race_free", "record",
    "require", "reveal", "same_work", "waits",
]  # fmt: skip
