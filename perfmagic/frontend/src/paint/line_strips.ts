// When each line was at work: Python and its waiting above, its ops queued and executing below, its backward outlined.
import type { When } from "../model/lines.ts";
import { type Scale, ticks } from "../model/scale.ts";
import { below } from "../model/sorted.ts";
import type { Spans } from "../model/spans.ts";
import type { Palette, Pixel } from "./theme.ts";
import type { Context } from "./text.ts";

export const BAR_PX = 5;
const UPPER_PX = 3;
const LOWER_PX = UPPER_PX + BAR_PX + 1;
const HATCH_PX = 4;

/** [left edge, width] */
type Box = readonly [number, number];

/** Intervals on whole pixels; what touches there is one. */
export function boxes(spans: Spans, scale: Scale): Box[] {
  const { start, end } = spans;
  const found: Box[] = [];
  for (let i = below(end, scale.from); i < start.length && start[i] < scale.to; i++) {
    const x0 = Math.max(0, Math.floor(scale.x(start[i])));
    let x1 = Math.max(x0 + 1, Math.ceil(scale.xIn(end[i])));
    for (let last = i; ; i = last) {
      last = below(start, scale.ns(x1 + 1), i + 1) - 1; // the last that begins in these pixels or the next
      if (last <= i) break;
      x1 = Math.max(x1, Math.ceil(scale.xIn(end[last])));
    }
    if (x0 < scale.width) found.push([x0, Math.min(x1, Math.ceil(scale.width)) - x0]);
  }
  return found;
}

/** The grid under all rows. */
export function paintGrid(g: Context, palette: Palette, scale: Scale, height: number): void {
  g.fillStyle = palette.css("grid");
  for (const tick of ticks(scale.from, scale.to, scale.width)) g.fillRect(scale.x(tick.at), 0, 0.75, height);
}

/** One row's strip. y: its upper edge. */
export function paintLineStrip(g: Context, palette: Palette, scale: Scale, when: When, y: number): void {
  fill(g, css(palette.pixel("launch")), boxes(when.python, scale), y + UPPER_PX);
  const waiting = boxes(when.waiting, scale);
  fill(g, css(palette.pixel("wait", 0.09)), waiting, y + UPPER_PX);
  hatch(g, palette, waiting, y + UPPER_PX);
  fill(g, css(palette.queued("comp", 1, false)), boxes(when.queued, scale), y + LOWER_PX);
  fill(g, palette.css("comp"), boxes(when.executing, scale), y + LOWER_PX);
  outline(g, palette.css("comp"), boxes(when.backward, scale), y + LOWER_PX, BAR_PX);
}

/** Frames around boxes, a pixel of which lies inside. */
export function outline(g: Context, colour: string, all: Box[], y: number, h: number): void {
  g.strokeStyle = colour;
  g.lineWidth = 1;
  for (const [x, w] of all) g.strokeRect(x + 0.5, y + 0.5, Math.max(0.5, w - 1), h - 1);
}

function fill(g: Context, colour: string, all: Box[], y: number): void {
  g.fillStyle = colour;
  for (const [x, w] of all) g.fillRect(x, y, w, BAR_PX);
}

function hatch(g: Context, palette: Palette, all: Box[], y: number): void {
  outline(g, palette.css("wait"), all, y, BAR_PX);
  g.lineWidth = 0.8;
  g.beginPath();
  for (const [x, w] of all) {
    for (let from = x + 1; from + BAR_PX - 1 <= x + w; from += HATCH_PX) {
      g.moveTo(from, y);
      g.lineTo(from + BAR_PX - 1, y + BAR_PX);
    }
  }
  g.stroke();
}

function css(colour: Pixel): string {
  return `rgb(${colour & 255},${(colour >> 8) & 255},${(colour >> 16) & 255})`;
}
