"""Colours, as tokens with a light and a dark value, and the few rules for mixing them.

Hue is the class of a device op, grey is Python, red is waiting (hatched) and an idle device (solid). Contrast and
colour-blind distances were computed when the palette was chosen; change a value only together with its partners.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmagic.analysis.memory.stack import Kind
from perfmagic.trace.columns import Int64


@dataclass(frozen=True)
class Tone:
    """One colour token: its value on the light and on the dark ground, as #rrggbb."""

    light: str
    dark: str


TONES: dict[str, Tone] = {
    "ground": Tone("#ffffff", "#111111"),
    "ink": Tone("#1b1f24", "#e8eaed"),
    "ink2": Tone("#525a64", "#a9b0b9"),
    "ink3": Tone("#6a727d", "#8b939e"),
    "rule": Tone("#e3e6ea", "#2b2f34"),
    "grid": Tone("#eceef1", "#202326"),
    "host1": Tone("#c9ced6", "#4a515b"),
    "host2": Tone("#dde1e6", "#373d45"),
    "host3": Tone("#e9ecef", "#2a2f35"),
    "hostink": Tone("#30363d", "#dfe3e8"),
    "launch": Tone("#7b838e", "#8b939e"),
    "wait": Tone("#c7282e", "#f4685f"),  # hatched: somebody waits
    "idle": Tone("#c7282e", "#f4685f"),  # solid: the device has nothing to do
    "matrix": Tone("#24529c", "#4f83dd"),
    "comp": Tone("#4478bc", "#7aabe6"),
    "comm": Tone("#d9730d", "#ec8b33"),
    "htod": Tone("#477742", "#58da98"),
    "dtoh": Tone("#004423", "#35835b"),
    "dtod": Tone("#2a9fab", "#93d8e0"),
    "memset": Tone("#6f767f", "#8a9098"),
    "unknown": Tone("#6a727d", "#8b939e"),
    "memory": Tone("#7d72a8", "#9d93c9"),
    # memory by kind of reason: what lives long is dark and blue, what a backward pass keeps is red, what passes is pale
    "mem_parameters": Tone("#483d82", "#8477ca"),
    "mem_optimizer": Tone("#6b5ea9", "#6250a0"),
    "mem_before": Tone("#9d9eda", "#524a78"),
    "mem_gradients": Tone("#8e82c4", "#9f97de"),
    "mem_held": Tone("#9dbcd2", "#63808d"),
    "mem_graph": Tone("#a7507b", "#b280b3"),
    "mem_kept": Tone("#c48da7", "#785979"),
    "mem_backward": Tone("#d2cbfc", "#7d62a2"),
    "mem_passing": Tone("#dfe3e8", "#3f464f"),
    "on_mem_dark": Tone("#ffffff", "#0a0d12"),
    "on_mem_middle": Tone("#1b1f24", "#ffffff"),
    "warn": Tone("#d9730d", "#ec8b33"),
    "at_once": Tone("#1a7f37", "#3fb950"),  # of lines between what ran side by side
    # text written on a slice of the class
    "on_matrix": Tone("#ffffff", "#0a0d12"),
    "on_comp": Tone("#ffffff", "#0a0d12"),
    "on_comm": Tone("#1f0f00", "#140a00"),
    "on_htod": Tone("#ffffff", "#04120c"),
    "on_dtoh": Tone("#ffffff", "#ffffff"),
    "on_dtod": Tone("#04181b", "#04181b"),
    "on_memset": Tone("#ffffff", "#0a0d12"),
    "on_unknown": Tone("#ffffff", "#0a0d12"),
}

# the colour of each OpClass, in its order
CLASS_TOKENS = ("matrix", "comp", "comm", "htod", "dtoh", "dtod", "dtod", "memset", "unknown")

# share of the class colour in the tint of a queued layer, neighbouring layers alternating; orphans paler
QUEUED_LIGHT = (0.20, 0.32)
QUEUED_DARK = (0.25, 0.38)
ORPHAN_LIGHT = (0.10, 0.14)
ORPHAN_DARK = (0.14, 0.19)
PREDICTED_SHARE = 0.6  # of the class colour in an op whose time is a prediction
HIDDEN_SHARE = 0.38  # a stave's part that lies under compute
LOST_SHARE = 0.09  # the fill under the hatch of lost time


def mixed(colour: str, ground: str, share: float) -> str:
    """The opaque colour that `share` of colour over ground gives: ("#000000", "#ffffff", 0.2) → "#cccccc"."""
    parts = zip(_channels(colour), _channels(ground), strict=True)
    return "#" + "".join(f"{round(c * share + g * (1 - share)):02x}" for c, g in parts)


def tint(token: str, light_share: float, dark_share: float) -> Tone:
    """A token laid thinly over the ground."""
    tone, ground = TONES[token], TONES["ground"]
    return Tone(mixed(tone.light, ground.light, light_share), mixed(tone.dark, ground.dark, dark_share))


def lighter(token: str) -> Tone:
    """A token in a picture of predictions: ops are pale, with dark text on them on the light ground."""
    if token in CLASS_TOKENS:
        return tint(token, PREDICTED_SHARE, PREDICTED_SHARE)
    return TONES["ink" if token.startswith("on_") else token]


def queued(token: str, layer: int, *, orphan: bool = False) -> Tone:
    """The fill of a queued layer of a class; neighbours (layer even, odd) differ."""
    light, dark = (ORPHAN_LIGHT, ORPHAN_DARK) if orphan else (QUEUED_LIGHT, QUEUED_DARK)
    return tint(token, light[layer % 2], dark[layer % 2])


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


# What every picture of memory shares: the colours of its layers, and which steps its columns show.

TOKENS = {
    Kind.PARAMETERS: "mem_parameters",
    Kind.OPTIMIZER: "mem_optimizer",
    Kind.BEFORE: "mem_before",
    Kind.GRADIENTS: "mem_gradients",
    Kind.HELD: "mem_held",
    Kind.GRAPH: "mem_graph",
    Kind.KEPT: "mem_kept",
    Kind.BACKWARD: "mem_backward",
    Kind.PASSING: "mem_passing",
}


def columns_of(total: Int64, most: int) -> tuple[Int64, Int64]:
    """Where each column of steps begins, and the step of it that is drawn: that with the most memory."""
    n = min(len(total), most)
    first = np.arange(n, dtype=np.int64) * len(total) // n
    shown = [
        int(total[a:b].argmax()) + a for a, b in zip(first.tolist(), [*first[1:].tolist(), len(total)], strict=True)
    ]
    return first, np.array(shown, np.int64)
