// Where each lane lies, in CSS pixels from the canvas's top. Depends on the model, the width and what is unfolded;
// never on the window, so that nothing moves when zooming.
import type { State } from "./state.ts";
import type { Model, Stream, Thread } from "./store.ts";

export type RowKind =
  | "overview" | "flags" | "axis" | "cell" | "thread" | "launches" | "heading" | "pile" | "lane" | "strip" | "more"
  | "stave" | "memory" | "rank"; // prettier-ignore

export interface Row {
  kind: RowKind;
  y: number;
  h: number;
  /** Of the thread, stream, group or memory lane. */
  index: number;
  /** Of the stave in its group; for a thread the number of levels drawn; for "more" the streams not drawn. */
  sub: number;
}

export interface Bracket {
  y0: number;
  y1: number;
  text: string;
  token: string;
}

export interface Layout {
  rows: Row[];
  brackets: Bracket[];
  height: number;
  width: number;
  left: number;
  plot: number;
  right: number;
  /** Height of a label above its lane; 0 where labels stand in the left gutter. */
  above: number;
}

export const LEVEL_PX = 11;
const LEFT_PX = 92;
const RIGHT_PX = 104;
const FEW_OPS = 64; // as in perfmagic/view/timeline/doc.py: up to this many ops a picture can be read op by op
const MAIN_LEVELS = 3;
const OTHER_LEVELS = 2;
const FRAME_LEVELS = 8;
const MAX_THREADS = 6;

/** Up to so few ops on so few streams, every op gets a row of its own. */
export function opensRows(model: Model): boolean {
  const { n_ops } = model.header;
  return n_ops > 0 && n_ops <= FEW_OPS && model.groups.length === 1 && model.groups[0].wire.n_streams <= 2;
}

export function pileHeight(queueMax: number, open: boolean): number {
  if (!queueMax) return 0;
  if (open) return Math.max(7, Math.min(132, 11 * queueMax));
  return Math.round(Math.max(7, Math.min(66, 6.2 * Math.log2(1 + queueMax))));
}

export function laneHeight(stream: Stream, first: boolean, open: boolean): number {
  const least = Math.min(8, stream.wire.depth) * 9; // sub-lanes can still be told apart
  return Math.max(open ? 24 : first || stream.wire.busy_frac > 0.3 ? 20 : 14, stream.wire.depth > 1 ? least : 0);
}

/** The height of a rank's row and the gap after it: more ranks get lower rows, so that a screen still shows them all. */
export function rankHeight(ranks: number): [number, number] {
  return ranks <= 12 ? [36, 8] : ranks <= 32 ? [19, 5] : [11, 2];
}

/** fontShare: how wide the words of the page's font are, as a share of the narrow font for which the gutters are planned. */
export function layoutOf(model: Model, state: State, width: number, fontShare = 1): Layout {
  const left = width < 520 ? 0 : Math.round(LEFT_PX * fontShare);
  const right = width < 720 ? 0 : Math.round(RIGHT_PX * fontShare);
  const above = left ? 0 : 13;
  const rows: Row[] = [];
  const brackets: Bracket[] = [];
  let y = 0;
  const add = (kind: RowKind, h: number, gap: number, index = 0, sub = 0, labelled = true): void => {
    if (labelled) y += above;
    rows.push({ kind, y, h, index, sub });
    y += h + gap;
  };
  const { header } = model;
  if (model.ranks.length) {
    const [high, gap] = rankHeight(model.ranks.length);
    add("axis", 13, 4, 0, 0, false);
    model.ranks.forEach((_, i) => add("rank", high, gap, i));
    return { rows, brackets, height: y + 2, width, left, plot: Math.max(40, width - left - right), right, above };
  }
  const few = header.n_ops <= FEW_OPS && model.streams.length > 0;
  if (!few) add("overview", 26, 8);
  if (header.flags.length) add("flags", 28, 2, 0, 0, false);
  add("axis", 13, 1, 0, 0, false);

  const top = y;
  if (model.cell) add("cell", 18, 3);
  for (const i of threadsOf(model, few)) {
    const { frames, levels } = model.threads[i];
    const folded = frames ? FRAME_LEVELS : i ? OTHER_LEVELS : MAIN_LEVELS;
    const shown = state.open.includes(i) ? levels.length : Math.min(levels.length, folded);
    add("thread", shown * LEVEL_PX, 4, i, shown);
  }
  if (model.launches || model.blocked) add("launches", 14, 0);
  if (y > top) {
    brackets.push({ y0: top, y1: y, text: "Python", token: "host1" });
    y += 9;
  }

  const several = model.groups.length > 1;
  const open = opensRows(model);
  model.groups.forEach((group, g) => {
    if (several) add("heading", 14, 4, g, 0, false);
    const first = y;
    const drawn = group.streams.slice(0, state.streams);
    drawn.forEach((s, i) => {
      const stream = model.streams[s];
      const pile = pileHeight(stream.wire.queue_max, open);
      if (pile) add("pile", pile, 0, s);
      add("lane", laneHeight(stream, i === 0, open), 1, s, 0, !pile); // a pile stands on its lane
      if (i === 0 && model.cell && new Set(model.cell.line).size > 1) add("strip", 11, 0, s, 0, false);
      y += 8;
    });
    const rest = group.streams.length - drawn.length;
    if (rest + group.wire.n_folded) add("more", 14, 8, g, rest, false);
    group.staves.forEach((_, i) => add("stave", 10, 3, g, i));
    model.memory.forEach((lane, i) => {
      if (lane.device !== group.wire.device) return;
      y += 6;
      add("memory", 58, 4, i);
    });
    const name = several ? `${group.wire.short_label} ${group.wire.device}` : group.wire.short_label;
    if (y > first) brackets.push({ y0: first, y1: y - 3, text: name, token: "comp" });
    y += several ? 8 : 0;
  });
  return { rows, brackets, height: y + 2, width, left, plot: Math.max(40, width - left - right), right, above };
}

/** The threads that are drawn, from above: operators, unless ops are few, and below them frames of the same thread. */
function threadsOf(model: Model, few: boolean): number[] {
  const all = model.threads.map((_, i) => i);
  const operators = all.filter((i) => !model.threads[i].frames).slice(0, MAX_THREADS);
  const framesUnder = (above: number): number[] =>
    all.filter((i) => model.threads[i].frames && model.threads[i].under === above);
  const below = operators.flatMap((i) => (few ? framesUnder(i) : [i, ...framesUnder(i)]));
  return [...below, ...framesUnder(-1).slice(0, MAX_THREADS)];
}

/** The outermost level that a thread's row draws; `row.sub` levels follow from there. */
export function firstLevel(thread: Thread, row: Row): number {
  return Math.min(thread.outer, thread.levels.length - row.sub);
}

export function rowAt(layout: Layout, y: number): Row | null {
  return layout.rows.find((row) => y >= row.y && y < row.y + row.h) ?? null;
}
