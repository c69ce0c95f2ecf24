// Where the columns of the lines tab stand, and the strip of the timeline above them on the same axis.
import type { Layout, Row, RowKind } from "./layout.ts";
import type { Model } from "./store.ts";
import type { State } from "./state.ts";
import { term } from "./words.ts";

export const NUMBER_PX = 34;
const LETTER_PX = 6.7; // of the code's font
const CODE_PX = { least: 170, share: 0.5 };
const LEAST_PLOT_PX = 130;
const MOST_LANES = 6;

export interface LineColumn {
  name: string;
  of: "python" | "blocked" | "device" | "backward" | "ops" | "peak";
  px: number;
}

/** The columns of numbers. Without a backward there is none of it. */
export function lineColumns(model: Model): LineColumn[] {
  const columns: LineColumn[] = [
    { name: term("Python"), of: "python", px: 78 },
    { name: term("waiting"), of: "blocked", px: 78 },
    { name: term("device"), of: "device", px: 78 },
  ];
  if (model.lines!.column.backward.some((ns) => ns > 0))
    columns.push({ name: term("its backward"), of: "backward", px: 90 });
  columns.push({ name: term("ops"), of: "ops", px: 48 });
  if (model.lines!.wire.memory) columns.push({ name: term("at the peak"), of: "peak", px: 90 });
  return columns;
}

/** The strip above the table. A view that is too narrow for all columns is drawn wider, and scrolls. */
export function linesLayout(model: Model, _state: State, width: number): Layout {
  const right = lineColumns(model).reduce((sum, column) => sum + column.px, 0);
  const longest = model.lines!.codes.reduce((most, code) => Math.max(most, code.length), 0) * LETTER_PX + 14;
  const room = Math.max(CODE_PX.least, (width - NUMBER_PX - right) * CODE_PX.share * (longest > 600 ? 1.25 : 1));
  const left = NUMBER_PX + Math.round(Math.max(CODE_PX.least, Math.min(longest, room)));
  const plot = Math.max(LEAST_PLOT_PX, width - left - right);
  const rows: Row[] = [];
  let y = 0;
  const add = (kind: RowKind, h: number, gap: number, index = 0): void => {
    rows.push({ kind, y, h, index, sub: 0 });
    y += h + gap;
  };
  add("axis", 13, 1);
  if (model.cell) add("cell", 15, 2);
  if (model.launches || model.blocked) add("launches", 12, 3);
  const streams = model.groups.flatMap((group) => group.streams).slice(0, MOST_LANES);
  for (const s of streams) add("lane", 18, 4, s);
  return { rows, brackets: [], height: y + 2, width: left + plot + right, left, plot, right, above: 0 };
}

/** How many streams the strip has no room for. */
export function streamsLeftOut(model: Model): number {
  const folded = model.groups.reduce((sum, group) => sum + group.wire.n_folded, 0);
  return Math.max(0, model.streams.length - MOST_LANES) + folded;
}
