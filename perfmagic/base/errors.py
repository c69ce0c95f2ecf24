"""What can go wrong, as one small tree.

Every message says where it happened, what was found, with numbers, and (as `hint`) what to do about it.
Magics show these in one line, without a traceback of perfmagic's own frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

# What is secret in a URL, and text without it: credentials, the query, the fragment, parameters of the path.

HIDDEN = "…"
# a Path writes one slash, a mistyped URL backslashes; one letter is a drive of Windows
_SCHEME = r"(?:[\w+.-]{2,40}:[/\\]+|\b[a-z]://+)"
# Up to a blank, or up to the last @ before the next URL: a password may hold blanks. What follows "…" is hidden
# already, and punctuation behind a URL is the sentence's.
# As text: compiling them takes longer than most errors
_URL = (
    rf"(?i){_SCHEME}(?!{HIDDEN})(?:(?:(?!{_SCHEME}).)*[^\s{HIDDEN}]@(?=\S))?\S*[^\s:;,.)\]'\"]"
    rf"|{_SCHEME}\S*[^\s:;,.)\]'\"]"
)
_LINK = rf"(?is)({_SCHEME})(.*)"
# the protocols of fsspec behind which "::" and another URL may stand; elsewhere "::" is part of a host or a password
_CHAINING = r"(?is)(?:zip|tar|libarchive|dir|reference|asynclocal|cached|blockcache|filecache|simplecache)(?:://.*)?"
_IPV6 = r"(?i)(?:^|(?<=@))\[[0-9a-f:.]*(?:%\w+)?\](?=[:/?#;]|$)"
_PORT = r":\d*$"
_END_OF_PATH = r"[?#;]"
_PARTS = r"[/\\?#&=:;@]"
_SHORTEST = 4  # characters of a value that is replaced wherever it stands


def shown_url(url: str) -> str:
    """A URL without its secrets; a chain as fsspec takes it, such as zip://x::https://host/y, in each of its links.

    >>> from perfmagic.base.errors import shown_url
    >>> shown_url("simplecache::s3://KEY:SECRET@bucket/run.json?sig=1")
    'simplecache::s3://…@bucket/run.json'
    """
    return "::".join(re.sub(_LINK, lambda found: found[1] + _shown_rest(found[2]), link) for link in links(url))


def links(url: str) -> list[str]:
    """The URLs of a chain as fsspec takes it; one that is no chain alone."""
    head, chained, rest = url.partition("::")
    return [head, *links(rest)] if chained and re.fullmatch(_CHAINING, head) else [url]


def path_of(link: str) -> str:
    """What stands before the query, the fragment and the parameters of a path."""
    return re.split(_END_OF_PATH, link, maxsplit=1)[0]


def without_secrets(text: str, url: str = "", options: Mapping[str, Any] | None = None) -> str:
    """A text with every URL in it as shown_url() gives it, one with blanks before its @ as its scheme alone.

    url, options: what was opened, and what its file system was given: their secrets are hidden wherever they stand,
    as libraries quote them in parts, percent-encoded or not, in small letters or not.
    """
    known = {
        form for secret in _secrets(url, options or {}) for form in (secret, unquote(secret), quote(secret, "")) if form
    }
    text = text.replace(url, shown_url(url)) if url else text
    for secret in sorted(known, key=len, reverse=True):
        text = re.sub(re.escape(secret), HIDDEN, text, flags=re.IGNORECASE)
    return re.sub(_URL, _shown_in_text, text)


def _shown_in_text(match: re.Match[str]) -> str:
    link = re.match(_LINK, match[0])
    spaced = link is not None and re.search(r"\s", match[0])
    return f"{link[1]}{HIDDEN}" if link is not None and spaced else shown_url(match[0])


def _shown_rest(rest: str) -> str:
    """What follows the scheme's slashes. Where the end of the credentials is ambiguous, all of it is hidden."""
    path = path_of(rest)
    host = re.split(r"[/\\]", path, maxsplit=1)[0]
    user, at, _ = host.rpartition("@")
    beyond = rest[len(host) :]
    if at:
        return HIDDEN if "@" in beyond else f"{HIDDEN}@{path.removeprefix(f'{user}@')}"
    bare = re.sub(_IPV6, "", rest)
    if "@" in rest[len(path) :] or ("@" in beyond and ":" in bare.rpartition("@")[0]):
        return HIDDEN
    name = re.sub(_PORT, "", re.sub(_IPV6, "", host))
    return HIDDEN if ":" in name else path


def _secrets(url: str, options: Mapping[str, Any]) -> Iterator[str]:
    """The credentials, query and fragment of each link, whole and in parts; all text among the options."""
    for link in links(url):
        parts = re.fullmatch(_LINK, link)
        rest = parts[2] if parts else ""
        shown = _shown_rest(rest)
        credentials = rest if shown == HIDDEN else rest.rpartition("@")[0] if shown.startswith(HIDDEN) else ""
        hidden = [credentials, rest[len(path_of(rest)) + 1 :]]
        yield from hidden
        yield from (part for whole in hidden for part in re.split(_PARTS, whole) if len(part) >= _SHORTEST)
    for value in options.values():
        if isinstance(value, Mapping):
            yield from _secrets("", value)
        elif isinstance(value, str) and len(value) >= _SHORTEST:
            yield value


class PerfmagicError(Exception):
    """Base of every error perfmagic raises on purpose.

    message: where and what, with numbers.  hint: what the reader can do, or None. What is secret in a URL is hidden in
    both: notebooks are saved with their errors.

    >>> try:
    ...     perfmagic.open_trace("nothing.json")
    ... except perfmagic.PerfmagicError as error:
    ...     print(error.message, error.hint, sep=": ")
    there is no file nothing.json: check the name and the folder
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = without_secrets(message)
        self.hint = hint and without_secrets(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\nHint: {self.hint}" if self.hint else self.message


class OptionError(PerfmagicError, ValueError):
    """An option or argument has a value perfmagic cannot use."""


class KeywordError(OptionError, TypeError):
    """A function was called with arguments that it does not take."""


class TraceError(PerfmagicError, ValueError):
    """A trace file cannot be read, or does not hold what was asked of it."""


class CaptureError(PerfmagicError, RuntimeError):
    """A cell or a block cannot be measured here."""


class RanksError(CaptureError):
    """A cell failed in one or more ranks: what they raised, and which ranks were released.

    failures: one for each rank that did not end well.
    """

    def __init__(self, message: str, failures: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.failures = failures

    @classmethod
    def named(cls, name: str, message: str, failures: tuple[object, ...]) -> RanksError:
        """One that is called as what the ranks raised, so that a notebook's error output names it."""
        kind = cls if name == cls.__name__ else type(name, (cls,), {"__module__": cls.__module__})
        error: RanksError = kind(message, failures)
        return error

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the ranks' own tracebacks, and none of ours."""
        return self.message.split("\n")


class RanksInterrupt(KeyboardInterrupt):
    """The notebook was interrupted while a cell ran in ranks; the message says where each stood."""

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")


class DeviceError(CaptureError):
    """The device asked for is absent, or cannot do what was asked of it."""


class CommunicationError(DeviceError):
    """An operation between ranks failed, or was ended because another rank will not take part."""


class TorchMissingError(CaptureError, ImportError):
    """torch is needed for this and is not installed."""

    def __init__(self, wanted_for: str) -> None:
        super().__init__(
            f"{wanted_for} needs torch, which is not installed in this environment",
            hint="install the build for your machine (https://pytorch.org/get-started), for example: pip install torch",
        )
