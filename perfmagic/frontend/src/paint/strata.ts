// The layers of a pile: one op each where rows are thick enough, else the runs of ops that one cell line launched, in
// alternating tints and with their line's number; and the torn edge of a pile that is cropped.
import { CLASS_TOKENS, COMPUTE, MATRIX } from "../model/classes.ts";
import { type PileView, pileView } from "../model/crop.ts";
import type { Row } from "../model/layout.ts";
import { BEFORE_THE_RECORD, PileColumns, type Run } from "../model/pile.ts";
import { upTo } from "../model/sorted.ts";
import type { Stream } from "../model/store.ts";
import { mainClass } from "../model/totals.ts";
import { count } from "../model/units.ts";
import type { Frame } from "./draw.ts";
import { DIMMED_SHARE } from "./theme.ts";

const OWN_ROW_PX = 1.5; // rows at least so thick are one op each, in its own class colour
const MOST_OWN = 600;
const MOST_RUNS = 300;
const MANY_STREAMS = 8; // so many piles are of one tint while the view moves
const LABEL_THICKNESS_PX = 15;

export interface Layer {
  first: number;
  last: number;
  key: number;
  colour: number;
}

export interface Layers {
  all: Layer[];
  own: boolean;
  /** Ranks that are queued at some time in the window. */
  first: number;
  last: number;
}

export function layersOf(f: Frame, stream: Stream, view: PileView): Layers {
  const { pile } = stream;
  const first = upTo(pile.start, f.scale.from);
  const last = upTo(pile.launch, f.scale.to);
  if (f.moving && f.columnPx > 1 && f.model.streams.length > MANY_STREAMS && !f.hits) {
    const colour = f.palette.queued(inkOf(stream), 0, false);
    return { all: last > first ? [{ first, last, key: 0, colour }] : [], own: false, first, last };
  }
  const own = view.rowPx >= OWN_ROW_PX && last - first <= MOST_OWN;
  const dim = f.hits ? DIMMED_SHARE : 1;
  if (own) {
    const all: Layer[] = [];
    for (let i = first; i < last; i++) {
      const hit = !f.hits || f.hits.has(stream, i);
      const off = f.state.off & (1 << stream.cls[i]);
      const orphan = stream.orphan[i] > 0;
      const colour = f.palette.queued(CLASS_TOKENS[stream.cls[i]], i, orphan, hit && !off ? 1 : DIMMED_SHARE);
      all.push({ first: i, last: i + 1, key: orphan ? BEFORE_THE_RECORD : stream.line[i], colour });
    }
    return { all, own, first, last };
  }
  let runs = stream.runs.filter((run) => run.last > first && run.first < last);
  if (runs.length > MOST_RUNS) runs = [{ first, last, key: 0 }];
  const all = runs.map((run) => {
    const number = stream.runs.indexOf(run);
    const main = number < 0 ? mainClass(stream, first, Math.min(last, first + 5000)) : runClass(stream, run);
    const token = main === MATRIX ? "comp" : CLASS_TOKENS[main];
    const lit = f.hits && !f.hits.names && run.key === f.hits.line ? 1 : dim;
    const colour = f.palette.queued(token, Math.max(0, number), run.key === BEFORE_THE_RECORD, lit);
    return { first: run.first, last: run.last, key: run.key, colour };
  });
  return { all, own, first, last };
}

const inks = new WeakMap<Stream, string>();
const runClasses = new WeakMap<Run, number>();

/** The class of a run of ops, whatever part of it is in the window: its colour does not change with the view. */
function runClass(stream: Stream, run: Run): number {
  let main = runClasses.get(run);
  if (main === undefined) runClasses.set(run, (main = mainClass(stream, run.first, run.last)));
  return main;
}

/** The colour of a stream's lines. */
export function inkOf(stream: Stream): string {
  let ink = inks.get(stream);
  if (!ink) {
    const main = mainClass(stream);
    inks.set(stream, (ink = main === COMPUTE ? "matrix" : CLASS_TOKENS[main]));
  }
  return ink;
}

/** The column of an instant, the first or the last for one out of view. */
export function columnOf(f: Frame, at: number): number {
  const n = f.edges.length - 1;
  return Math.max(0, Math.min(n - 1, Math.floor(((at - f.scale.from) / (f.scale.to - f.scale.from)) * n)));
}

/** The line of each layer in its longest stretch that is thick enough, and the torn edge of a cropped pile. */
export function writePile(f: Frame, row: Row): void {
  const stream = f.model.streams[row.index];
  const view = pileView(stream, f.scale.from, f.scale.to, row.h);
  if (view.deepest > view.rows) tornEdge(f, row, inkOf(stream));
  if (row.h <= 30) return;
  const layers = layersOf(f, stream, view);
  if (layers.own && !stream.orphans) return;
  const columns = PileColumns.of(stream.pile, f.edges);
  const taken: [number, number, number][] = [];
  for (const layer of layers.own ? [] : layers.all) {
    const words = layerWords(f, layer.key, layer.last - layer.first);
    if (!words) continue;
    const place = longestStretch(f, columns, layer, view, row);
    const width = f.text.width(words, { size: 10, bold: true }) + 14;
    if (!place || place.x1 - place.x0 < width) continue;
    const middle = (place.x0 + place.x1) / 2;
    if (taken.some(([a, b, y]) => middle + width / 2 > a && middle - width / 2 < b && Math.abs(place.y - y) <= 15))
      continue;
    taken.push([middle - width / 2, middle + width / 2, place.y]);
    pill(f, words, middle, place.y, width - 6);
  }
}

function layerWords(f: Frame, key: number, n: number): string {
  if (key === BEFORE_THE_RECORD) return `${count(n)} launched before the recording`;
  if (!f.model.cell) return "";
  return key === 0 ? "before this cell" : `line ${key}`;
}

interface Place {
  x0: number;
  x1: number;
  y: number;
}

function longestStretch(f: Frame, columns: PileColumns, layer: Layer, view: PileView, row: Row): Place | null {
  const top = row.h / view.rowPx;
  const middles = (i: number): [number, number] => [
    columns.level(layer.first, i),
    Math.min(top, columns.level(layer.last, i)),
  ];
  let best: [number, number] | null = null;
  let from = -1;
  const last = columnOf(f, columns.pile.start[layer.last - 1]);
  for (let i = columnOf(f, columns.pile.launch[layer.first]); i <= last + 1; i++) {
    const [low, high] = i <= last ? middles(i) : [0, 0];
    const thick = (high - low) * view.rowPx >= LABEL_THICKNESS_PX;
    if (thick && from < 0) from = i;
    if (thick || from < 0) continue;
    if (!best || i - from > best[1] - best[0]) best = [from, i];
    from = -1;
  }
  if (!best) return null;
  const [low, high] = middles((best[0] + best[1]) >> 1);
  const px = f.columnPx / f.dpr;
  return { x0: best[0] * px, x1: best[1] * px, y: row.y + row.h - ((low + high) / 2) * view.rowPx };
}

/** A centred label on a patch of ground. */
function pill(f: Frame, words: string, x: number, y: number, width: number): void {
  const { g } = f.text;
  g.save();
  (g as unknown as { globalAlpha: number }).globalAlpha = 0.82;
  g.fillStyle = f.palette.css("ground");
  g.beginPath();
  g.roundRect(x - width / 2, y - 7, width, 14, 3);
  g.fill();
  g.restore();
  f.text.write(words, x, y + 0.5, { size: 10, bold: true, align: "center", colour: f.palette.css("ink") });
}

/** The upper edge of a pile of which only the next ops are drawn. */
function tornEdge(f: Frame, row: Row, token: string): void {
  const { g } = f.text;
  const zigzag = (): void => {
    g.beginPath();
    for (let x = 0, i = 0; x <= f.scale.width; x += 5, i++) {
      if (i) g.lineTo(x, row.y + (i & 1 ? 3.5 : 0));
      else g.moveTo(x, row.y);
    }
  };
  g.fillStyle = f.palette.css("ground");
  zigzag();
  g.lineTo(f.scale.width, row.y - 3);
  g.lineTo(0, row.y - 3);
  g.fill();
  g.strokeStyle = f.palette.css(token);
  g.lineWidth = 0.75;
  zigzag();
  g.stroke();
}
