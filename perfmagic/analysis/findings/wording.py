"""How sentences are put together: facts, lists, lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def sentences(*facts: str) -> str:
    """One fact a sentence: "the device was busy. It waited"; the first goes on a line begun, the last has no stop."""
    known = [fact for fact in facts if fact]
    return ". ".join(fact if i == 0 else fact[:1].upper() + fact[1:] for i, fact in enumerate(known))


def listed(words: Sequence[str]) -> str:
    """The words as people list them: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def on_lines(lines: Iterable[int]) -> str:
    """The lines after a space and "on": " on line 3", " on lines 4 and 7"; nothing where no line is known."""
    lines_named = name_lines(lines)
    return f" on {lines_named}" if lines_named else ""


def name_lines(lines: Iterable[int]) -> str:
    """The lines as people say them: "line 3", "lines 4 and 7", "lines 2, 4 and 7"."""
    known = [str(n) for n in sorted({int(n) for n in lines}) if n > 0]
    if not known:
        return ""
    return f"line{'s' if len(known) > 1 else ''} {listed(known)}"
