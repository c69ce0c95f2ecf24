"""Everyone can distinguish colours that lie side by side."""

from itertools import combinations

import pytest

from perfmagic.view.svg.palette import TONES

LEAST = 6.0  # OKLab distance × 100; two neighbours of a good categorical palette are 8 to 10 apart
# Machado, Oliveira & Fernandes (2009), severity 1: linear RGB as people without L or M cones see it
SEEN = {
    "as it is": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
}
# Ottosson (2020): linear RGB to cones, cones' cube roots to OKLab
CONES = ((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566))
CONES = (*CONES, (0.0883024619, 0.2817188376, 0.6299787005))
LAB = ((0.2104542553, 0.793617785, -0.0040720468), (1.9779984951, -2.428592205, 0.4505937099))
LAB = (*LAB, (0.0259040371, 0.7827717662, -0.808675766))


def times(matrix: tuple[tuple[float, ...], ...], vector: list[float]) -> list[float]:
    return [sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix]


def linear(channel: int) -> float:
    c = channel / 255
    return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4


def lab(colour: str, seen: str) -> list[float]:
    rgb = [linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5)]
    held = [min(1.0, max(0.0, c)) for c in times(SEEN[seen], rgb)]
    return times(LAB, [max(0.0, c) ** (1 / 3) for c in times(CONES, held)])


def distance(a: str, b: str, seen: str) -> float:
    pairs = zip(lab(a, seen), lab(b, seen), strict=True)
    return float(100 * sum((x - y) ** 2 for x, y in pairs) ** 0.5)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("seen", SEEN)
def test_layers_of_memory_are_distinguishable(seen: str, theme: str) -> None:
    layers = {name: getattr(tone, theme) for name, tone in TONES.items() if name.startswith("mem_")}
    assert len(layers) == 9
    near = {(a, b): distance(layers[a], layers[b], seen) for a, b in combinations(layers, 2)}
    assert [(pair, round(d, 1)) for pair, d in near.items() if d < LEAST] == []


def test_the_measure_knows_colours_that_are_alike_for_some() -> None:
    assert distance("#ffffff", "#000000", "as it is") == pytest.approx(100, abs=0.1)
    assert distance("#a39bc4", "#c68fb5", "protanopia") < 3
    assert distance("#a39bc4", "#c68fb5", "as it is") > 5
