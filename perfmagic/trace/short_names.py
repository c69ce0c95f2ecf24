"""Names that people read: shortened by structure, and so that names that differ never read the same.

What all kernels of one function share goes first, what tells them apart stays; only then letters are cut. The short
form depends on the whole set of names, so it is made once for a trace.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfmagic.base.terminal import columns, printable, squeezed
from perfmagic.trace.once import once_per_name
from perfmagic.trace.signatures import Kind, Term, is_signature, signature

WIDTH = 48  # columns of a short name in a table of usual width, in a finding and on a card
NARROWEST = 8
CUT = "…"
MOST_OPTIONAL = 12  # arguments tried where there is room

Path = tuple[int, ...]
_PIECE = re.compile(r"(?<=[_/. ])|(?<=[a-z\d])(?=[A-Z])")  # words of a flat name, in snake or camel case
_ALWAYS = (Kind.FUNCTION, Kind.DTYPE)  # said also where all kernels of the function share them


@dataclass
class _Facet:
    """One thing that may be said: an argument of a template, or a word of a flat name."""

    text: str
    rank: tuple[int, ...]  # the most telling first
    usual: bool  # is said where there is room, also if it tells nothing apart


_tree = once_per_name(signature)  # ranks of one job have the same names


@dataclass
class _Name:
    """A name in its parts.  family: names of one family differ by their facets.

    needed: what tells it from its namesakes.  always: what is said in any case.
    """

    full: str
    family: str
    tree: Term | None
    facets: dict[Path | str, _Facet] = field(default_factory=dict)
    needed: set[Path | str] = field(default_factory=set)
    always: set[Path | str] = field(default_factory=set)


def short_names(names: Iterable[str], width: int = WIDTH, *, kernels: bool = True) -> dict[str, str]:
    """Shorten each name to a number of terminal columns; names stay distinct, brackets balanced.

    The text of a name depends on the whole set, not on its order. A name that fits is not cut; of a kernel's
    signature the arguments are dropped that its namesakes share.  kernels: False where the names are of something
    else, such as annotations, in which brackets mean nothing.

    >>> gemms = [f"void gemm<float, ns::Config<{n}, 64>, true>(float*)" for n in (128, 256)]
    >>> list(short_names(gemms).values())
    ['gemm<float, Config<128>>', 'gemm<float, Config<256>>']
    """
    max_columns = max(NARROWEST, width)
    distinct = sorted(set(names))
    families: dict[str, list[_Name]] = defaultdict(list)
    for full in distinct:
        name = _parsed(full, max_columns, kernels=kernels)
        families[name.family].append(name)
    texts: dict[str, str] = {}
    for members in families.values():
        _distinguish(members)
    _shorten_functions(families, max_columns)
    for members in families.values():
        shared = _shared(members) if len(members) > 1 else set()
        for name in members:
            texts[name.full] = _said(name, max_columns, shared)
    return _numbered(texts, max_columns)


def short_name(name: str, width: int = WIDTH) -> str:
    """One name for people, where it need not differ from others.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)")
    'vectorized_elementwise_kernel<4, add<float>>'
    """
    return short_names((name,), width)[name]


def _parsed(full: str, max_columns: int, *, kernels: bool) -> _Name:
    text = printable(full)
    if kernels and is_signature(text):
        tree = _tree(text)
        name = _Name(full, tree.head, tree)
        _facets_of(tree, (), Kind.FUNCTION, name)
        if name.facets or columns(tree.head) <= max_columns:
            return name
        text = tree.head
    elif columns(text) <= max_columns:
        return _Name(full, text, None)
    words = [word for word in _PIECE.split(text) if word]
    name = _Name(full, f"{words[0]}…" if len(words) > 2 else text, None)
    seen: dict[str, int] = defaultdict(int)
    for at, word in enumerate(words):
        key = re.match(r"\D*", word)[0]  # type: ignore[index]  # matches always
        seen[key] += 1
        place = f"{key} {seen[key]}"
        telling = words[0] == "triton_" and word.isdecimal() and at == len(words) - 1  # Triton counts its kernels
        name.facets[place] = _Facet(word, (0 if telling or key == "MT" else 1, at), True)
        name.always |= {place} if at == 0 else set()
    return name


def _shorten_functions(families: Mapping[str, Sequence[_Name]], max_columns: int) -> None:
    """Cut the names of functions that leave no room for what their kernels need."""
    long: dict[int, list[str]] = defaultdict(list)
    for family, members in families.items():
        limit = max_columns * 5 // 8 if any(name.needed | name.always for name in members) else max_columns
        if members[0].tree is not None and columns(family) > limit:
            long[limit].append(family)
    for limit, functions in long.items():
        for function, text in short_names(functions, limit, kernels=False).items():
            for name in families[function]:
                name.tree = replace(name.tree, head=text) if name.tree is not None else None


def _facets_of(term: Term, path: Path, least: Kind, name: _Name) -> None:
    """Every argument below a term by its place.  least: what is said of a plumbing's parts tells no more than that."""
    for at, argument in enumerate(term.args):
        place = (*path, at)
        kind = max(least, Kind.PLUMBING if argument.silent else argument.kind)
        usual = kind in _ALWAYS or (kind in (Kind.NUMBER, Kind.TYPE) and len(place) == 1)
        head_size = term.silent and len(place) == 2 and at == 0 and kind == Kind.NUMBER  # of attention
        name.facets[place] = _Facet(argument.head, (kind, len(place), *place), usual or head_size)
        if kind == Kind.FUNCTION and not name.always:
            name.always.add(place)  # what a general kernel computes
        _facets_of(argument, place, max(least, kind) if kind > Kind.FLAG and not argument.silent else least, name)


def _distinguish(members: list[_Name]) -> None:
    """Mark in each name what it takes to tell it from its namesakes: the most telling differences first."""
    groups = [members]
    while groups:
        group = groups.pop()
        if len(group) < 2:
            continue
        ranks: dict[Path | str, tuple[int, ...]] = {}
        values: dict[Path | str, set[str]] = defaultdict(set)
        count: dict[Path | str, int] = defaultdict(int)
        for name in group:
            for place, facet in name.facets.items():
                ranks[place] = min(facet.rank, ranks.get(place, facet.rank))
                values[place].add(facet.text)
                count[place] += 1
        differing = [p for p in ranks if len(values[p]) > 1 or count[p] < len(group)]
        if not differing:
            continue
        place = min(differing, key=lambda p: ranks[p])
        parts: dict[str | None, list[_Name]] = defaultdict(list)
        for name in group:
            name.needed.add(place)
            parts[name.facets[place].text if place in name.facets else None].append(name)
        groups += parts.values()


def _shared(members: Sequence[_Name]) -> set[Path | str]:
    """The places at which all names say the same."""
    first = members[0].facets
    return {
        place
        for place, facet in first.items()
        if all(place in name.facets and name.facets[place].text == facet.text for name in members)
    }


def _said(name: _Name, max_columns: int, shared: set[Path | str]) -> str:
    """The name with what is needed, and with what else fits."""
    if name.tree is None and not name.facets:
        return squeezed(printable(name.full), max_columns)
    chosen = {place for place in name.needed | name.always if place in name.facets}
    kinds = {place: facet.rank[0] for place, facet in name.facets.items()}
    usual = [p for p in name.facets if name.facets[p].usual]
    ranked = sorted(usual, key=lambda p: (name.tree is None and p in shared, name.facets[p].rank))
    tried = 0
    for place in ranked:
        if place in chosen or (name.tree is not None and place in shared and kinds[place] not in _ALWAYS):
            continue
        if _repeats(name, place, chosen):
            continue
        tried += 1
        if tried > MOST_OPTIONAL:
            break
        if columns(_rendered(name, chosen | {place})) <= max_columns:
            chosen.add(place)
        elif name.tree is None:
            break  # a crumb from further behind would say less than where it was cut
    return squeezed(_rendered(name, chosen), max_columns)


def _repeats(name: _Name, place: Path | str, chosen: set[Path | str]) -> bool:
    """Whether a type is said already, of an operand before it or by the function that is applied."""
    facet = name.facets[place]
    if facet.rank[0] != Kind.DTYPE or name.tree is None:
        return False
    return any(name.facets[other].text == facet.text for other in chosen)


def _rendered(name: _Name, chosen: set[Path | str]) -> str:
    if name.tree is not None:
        spaces = [name.facets[p].text for p in chosen if name.facets[p].rank[0] == Kind.NAMESPACE]
        paths = {p for p in chosen if isinstance(p, tuple) and name.facets[p].rank[0] != Kind.NAMESPACE}
        shown = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
        return "".join(f"{space}::" for space in spaces) + _term(name.tree, (), shown, paths)
    text, gap = "", False
    for place, facet in name.facets.items():
        if place in chosen:
            text += (CUT if gap and not text.endswith(CUT) else "") + facet.text
        gap = place not in chosen
    return text + (CUT if gap and not text.endswith(CUT) else "")


def _term(term: Term, path: Path, shown: set[Path], chosen: set[Path]) -> str:
    inner = [
        _term(argument, (*path, at), shown, chosen) for at, argument in enumerate(term.args) if (*path, at) in shown
    ]
    if term.silent and path not in chosen and inner:
        return ", ".join(inner)
    return f"{term.head}<{', '.join(inner)}>" if inner else term.head


def _numbered(texts: Mapping[str, str], max_columns: int) -> dict[str, str]:
    """The texts; where some are still the same, each with a number in the order of the full names."""
    by_text: dict[str, list[str]] = defaultdict(list)
    for full, text in sorted(texts.items()):
        by_text[text].append(full)
    taken = {text for text, fulls in by_text.items() if len(fulls) == 1}
    numbered = {fulls[0]: text for text, fulls in by_text.items() if len(fulls) == 1}
    for text, fulls in by_text.items():
        number = 0
        for full in fulls if len(fulls) > 1 else ():
            candidate = ""
            while not candidate or candidate in taken:
                number += 1
                candidate = squeezed(text, max_columns - len(f" #{number}")) + f" #{number}"
            taken.add(candidate)
            numbered[full] = candidate
    return numbered
