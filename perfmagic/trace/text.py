"""Text from files: JSON may hold lone surrogates (halves of surrogate pairs), which UTF-8 cannot encode."""

from __future__ import annotations

from typing import Any

HALF = "\ufffd"  # replaces a lone surrogate, as any character that cannot be decoded


def printable(text: str) -> str:
    """The text with U+FFFD for each lone surrogate; the same object where there is none."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(HALF if "\ud800" <= character <= "\udfff" else character for character in text)
    return text


def all_printable(value: Any) -> tuple[Any, int]:
    """A decoded JSON value with every text and key made printable, and how many were not."""
    if isinstance(value, str):
        text = printable(value)
        return text, int(text is not value)
    if isinstance(value, list):
        items = [all_printable(item) for item in value]
        return [item for item, _ in items], sum(n for _, n in items)
    if isinstance(value, dict):
        pairs = [(all_printable(key), all_printable(item)) for key, item in value.items()]
        return {key: item for (key, _), (item, _) in pairs}, sum(n + m for (_, n), (_, m) in pairs)
    return value, 0
