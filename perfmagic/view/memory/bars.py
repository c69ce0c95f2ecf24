"""Bars of a memory table as small pictures, which follow the reader's theme as the large one does."""

from __future__ import annotations

from perfmagic.view.svg.palette import MEMORY_TONES


def bar_svg(name: str, share_frac: float, width_px: int, height_px: int, *, rest: bool = False) -> str:
    """A bar in a layer's colour, light and dark; with rest, what is missing to its width is grey."""
    tone = MEMORY_TONES[name]
    long = round(max(0.5, share_frac * width_px), 1)
    ground = MEMORY_TONES["temporary"]
    light, dark = (f".a{{fill:{getattr(tone, by)}}}.b{{fill:{getattr(ground, by)}}}" for by in ("light", "dark"))
    style = f"{light}@media(prefers-color-scheme:dark){{{dark}}}"
    back = f'<path class="b" d="M0 0h{width_px}v{height_px}h-{width_px}z"/>' if rest else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width_px}" height="{height_px}"><style>{style}</style>'
        f'{back}<path class="a" d="M0 0h{long:g}v{height_px}h-{long:g}z"/></svg>'
    )
