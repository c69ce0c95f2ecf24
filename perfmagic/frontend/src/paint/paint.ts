// One frame: fills into the pixel buffer, then words and lines over it.
import type { Frame } from "./draw.ts";
import type { Row } from "../model/layout.ts";
import { writeGutters } from "./gutters.ts";
import * as host from "./host.ts";
import { paintFlags, paintFocus, paintSelection, paintThreadOf } from "./marks.ts";
import { paintMemory, writeMemory } from "./memory.ts";
import { paintPile, writePile } from "./pile.ts";
import { paintLane, paintStave, paintStrip, writeLane, writeStrip } from "./stream.ts";
import type { Band } from "./pixels.ts";
import { ticks } from "../model/scale.ts";
import type { RowKind } from "../model/layout.ts";

type Painter = (f: Frame, row: Row) => void;

// pairs, not properties: their names are kept while others are shortened
const FILLS = new Map<RowKind, Painter>([
  ["overview", host.paintOverview],
  ["cell", host.paintCell],
  ["thread", host.paintThread],
  ["launches", host.paintLaunches],
  ["pile", paintPile],
  ["lane", paintLane],
  ["strip", paintStrip],
  ["stave", paintStave],
  ["memory", paintMemory],
]);

const WORDS = new Map<RowKind, Painter>([
  ["cell", host.writeCell],
  ["thread", host.writeThread],
  ["launches", host.writeLaunches],
  ["pile", writePile],
  ["lane", writeLane],
  ["strip", writeStrip],
  ["memory", writeMemory],
]);

/** All fills. */
export function paintPixels(f: Frame, band: Band): void {
  const axis = f.layout.rows.find((row) => row.kind === "axis")!;
  const { px, palette, dpr } = f;
  const ground = palette.pixel("ground");
  const cut = Math.min(px.height, Math.round((axis.y + 11) * dpr));
  px.clear(ground, cut, underLanes(f, ground), band);
  for (const row of f.rows) FILLS.get(row.kind)?.(f, row);
}

/** What lies under every lane: the grid, and the tint of the selection. */
function underLanes(f: Frame, ground: number): Int32Array {
  const columns = new Int32Array(f.px.columns).fill(ground);
  const across = f.dpr / f.step;
  const { selection } = f.state;
  if (selection) {
    const [from, to] = [f.scale.xIn(selection[0]) * across, f.scale.xIn(selection[1]) * across];
    columns.fill(f.palette.pixel("accent", 0.075), Math.round(from), Math.round(to));
  }
  const grid = f.palette.pixel("grid");
  for (const tick of ticks(f.scale.from, f.scale.to, f.scale.width)) {
    const x = Math.round(f.scale.x(tick.at) * across);
    columns.fill(grid, x, x + Math.max(1, Math.round(0.75 * across)));
  }
  return columns;
}

/** All words and lines; the canvas's origin is the plot's left upper corner. */
export function paintWords(f: Frame): void {
  const axis = f.layout.rows.find((row) => row.kind === "axis")!;
  for (const tick of ticks(f.scale.from, f.scale.to, f.scale.width)) {
    const x = f.scale.x(tick.at);
    const half = f.text.width(tick.text, { size: 10 }) / 2;
    const align = x < half ? "left" : x > f.scale.width - half ? "right" : "center";
    f.text.write(tick.text, x, axis.y + 5, { size: 10, align, colour: f.palette.css("ink2") });
  }
  if (!f.moving) for (const row of f.rows) WORDS.get(row.kind)?.(f, row);
  for (const row of f.layout.rows) if (row.kind === "flags") paintFlags(f, row); // they cross all lanes
  writeGutters(f);
  paintSelection(f);
  const { hover, focus } = f.state;
  if (focus) {
    paintThreadOf(f, focus);
    paintFocus(f, focus);
  }
  if (hover) paintThreadOf(f, hover);
}
