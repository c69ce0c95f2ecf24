// One frame: fills into the pixel buffer, then words and lines over it.
import * as python from "./python.ts";
import type { Row, RowKind } from "../model/layout.ts";
import type { Ref } from "../model/store.ts";
import { ticks } from "../model/scale.ts";
import type { Frame } from "./draw.ts";
import { crossesPole, paintFlags } from "./flags.ts";
import { writeGutters } from "./gutters.ts";
import { lengthPill, paintFocus, paintSelection } from "./marks.ts";
import { paintOverview } from "./overview.ts";
import { paintBackward } from "./backward.ts";
import { paintPathOf } from "./path.ts";
import { paintCriticalPath } from "./critical.ts";
import { paintPile } from "./pile.ts";
import type { Band } from "./pixels.ts";
import { writePile } from "./pile_words.ts";
import { paintLane, paintStave, paintStrip, writeLane, writeStrip } from "./stream.ts";

type Painter = (f: Frame, row: Row) => void;

export const FILLS = new Map<RowKind, Painter>([
  ["overview", paintOverview],
  ["cell", python.paintCell],
  ["thread", python.paintThread],
  ["launches", python.paintLaunches],
  ["pile", paintPile],
  ["lane", paintLane],
  ["strip", paintStrip],
  ["stave", paintStave],
]);

export const WORDS = new Map<RowKind, Painter>([
  ["cell", python.writeCell],
  ["thread", python.writeThread],
  ["launches", python.writeLaunches],
  ["pile", writePile],
  ["lane", writeLane],
  ["strip", writeStrip],
]);

/** What is drawn over all rows and below the gutters' words, and what is outlined in place of an op's path. */
export const OVER: ((f: Frame) => void)[] = [];
export const OUTLINES = new Map<Ref["kind"], (f: Frame, ref: Ref) => void>();

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
  const across = f.dpr / f.columnPx;
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

/** The instants of the axis, but for those under the selection's length. */
function writeAxis(f: Frame, axis: Row): void {
  const pill = lengthPill(f);
  for (const tick of ticks(f.scale.from, f.scale.to, f.scale.width)) {
    const half = f.text.width(tick.text, { size: 10 }) / 2;
    const x = Math.max(half, Math.min(f.scale.width - half, f.scale.x(tick.at)));
    if (pill && x + half > pill[0] - 4 && x - half < pill[1] + 4) continue;
    if (crossesPole(f, x - half, x + half)) clear(f, x - half - 2, axis.y, 2 * half + 4, 11);
    f.text.write(tick.text, x, axis.y + 5, { size: 10, align: "center", colour: f.palette.css("ink2") });
  }
}

function clear(f: Frame, x: number, y: number, w: number, h: number): void {
  f.text.g.fillStyle = f.palette.css("ground");
  f.text.g.fillRect(x, y, w, h);
}

/** All words and strokes; the canvas's origin is the plot's left upper corner. */
export function paintWords(f: Frame): void {
  for (const row of f.layout.rows) if (row.kind === "flags") paintFlags(f, row); // under the words of all lanes
  writeAxis(
    f,
    f.layout.rows.find((row) => row.kind === "axis")!,
  );
  if (!f.moving) for (const row of f.rows) WORDS.get(row.kind)?.(f, row);
  for (const paint of OVER) paint(f);
  writeGutters(f);
  paintCriticalPath(f);
  paintBackward(f);
  paintSelection(f);
  const { hover, focus } = f.state;
  if (focus) {
    paintPathOf(f, focus);
    paintFocus(f, focus);
  }
  if (hover) (OUTLINES.get(hover.kind) ?? paintPathOf)(f, hover);
}
