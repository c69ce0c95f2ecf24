// What every painter is given, and the few ways in which lanes are filled and labelled.
import type { Hits } from "../model/hits.ts";
import type { Layout, Row } from "../model/layout.ts";
import type { Scale } from "../model/scale.ts";
import type { State } from "../model/state.ts";
import type { Model } from "../model/store.ts";
import type { Pixels } from "./pixels.ts";
import type { Writer } from "./text.ts";
import type { Palette, Pixel } from "./theme.ts";

export interface Frame {
  model: Model;
  state: State;
  layout: Layout;
  /** The lanes to paint: all of them, or while the view moves those on screen. */
  rows: Row[];
  palette: Palette;
  hits: Hits | null;
  /** CSS pixels of the plot. */
  scale: Scale;
  /** Columns of the level of detail: edges in time; each is `columnPx` device pixels wide. */
  edges: Float64Array;
  columnPx: number;
  dpr: number;
  px: Pixels;
  text: Writer;
  /** While the view moves, texture and small labels are left out. */
  moving: boolean;
}

/** A rectangle in CSS pixels of the plot. */
export function box(f: Frame, x0: number, y0: number, x1: number, y1: number, colour: Pixel): void {
  const across = f.dpr / f.columnPx;
  f.px.box(x0 * across, y0 * f.dpr, x1 * across, y1 * f.dpr, colour);
}

/** Column i of the level of detail from y0 to y1, CSS pixels. */
export function bar(f: Frame, i: number, y0: number, y1: number, colour: Pixel): void {
  f.px.column(i, y0 * f.dpr, y1 * f.dpr, colour);
}

/** Columns as high as their share, standing on a floor; what is not zero is at least `least` px high. */
export function skyline(f: Frame, shares: Float64Array, y: number, h: number, colour: Pixel, least = 0.4): void {
  for (let i = 0; i < shares.length; i++) {
    if (shares[i] > 0) bar(f, i, y + h - Math.max(least, Math.min(1, shares[i]) * h), y + h, colour);
  }
}

/** Hatching of column i from y0 to y1. */
export function hatch(
  f: Frame,
  i: number,
  y0: number,
  y1: number,
  colour: Pixel,
  share: number,
  width: number,
  rising: boolean,
): void {
  const { dpr } = f;
  f.px.hatch(i, y0 * dpr, y1 * dpr, colour, share, HATCH_PX * dpr, width * dpr, rising);
}

const HATCH_PX = 5;
const LOST_SHARE = 0.09; // the fill under the hatch of lost time

/** Lost time: red hatching that falls to the right, with solid ends; of another colour where none is lost. */
export function lost(f: Frame, x0: number, x1: number, y: number, h: number, token = "wait"): void {
  box(f, x0, y, x1, y + h, f.palette.pixel(token, LOST_SHARE));
  const ink = f.palette.pixel(token);
  const across = f.dpr / f.columnPx;
  for (let x = Math.max(0, Math.round(x0 * across)); x < Math.min(f.px.columns, x1 * across); x++) {
    f.px.hatch(x, y * f.dpr, (y + h) * f.dpr, ink, 0.5, HATCH_PX * f.dpr, f.dpr, false);
  }
  box(f, x0, y, x0 + 1, y + h, ink);
  box(f, x1 - 1, y, x1, y + h, ink);
}

/** The column of an instant, the first or the last for one out of view. */
export function columnOf(f: Frame, at: number): number {
  const n = f.edges.length - 1;
  return Math.max(0, Math.min(n - 1, Math.floor(((at - f.scale.from) / (f.scale.to - f.scale.from)) * n)));
}

/** How strongly a class is drawn: switched off in the key, or not a hit, it is pale. */
export function strength(f: Frame, cls: number, hit: boolean): number {
  return f.state.off & (1 << cls) || !hit ? 0.22 : 1;
}

/** Words on a patch of ground in the middle of a stretch. */
export function inGap(f: Frame, words: string, x0: number, x1: number, at: Pick<Row, "y" | "h">, token: string): void {
  if (!words) return;
  const width = f.text.width(words, { size: 10 }) + 12;
  const middle = (x0 + x1) / 2;
  f.text.g.fillStyle = f.palette.css("ground");
  f.text.g.fillRect(middle - width / 2, at.y, width, at.h);
  f.text.write(words, middle, at.y + at.h / 2 + 0.5, { size: 10, align: "center", colour: f.palette.css(token) });
}
