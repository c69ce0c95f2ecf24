// The pile of a stream: layers, their tints, the surface, flow lines, and the hatching where the stream idles.
import { hatch, type Frame } from "./draw.ts";
import type { Row } from "../model/layout.ts";
import { PileColumns, type Run } from "../model/pile.ts";
import { upTo } from "../model/sorted.ts";
import { BEFORE_THE_RECORD, COMPUTE, MATRIX, type Stream } from "../model/store.ts";
import { CLASS_TOKENS, DIMMED_SHARE } from "../model/theme.ts";
import { count } from "../model/units.ts";

const OWN_ROW_PX = 1.5; // rows at least so thick are one op each, in its own class colour
const OWN_LINE_PX = 2.5; // below it the alternating tints tell the layers apart
const MOST_OWN = 600;
const MOST_RUNS = 300;
const MANY_STREAMS = 8; // so many piles are of one tint while the view moves, and have fewer paths
const MOST_ROW_PX = 11;
const FLOW_GAP_PX = 6; // between two paths, upwards
const FLOW_APART_PX = 5; // and to the side: nearer they would only tint the pile
const LEAST_FLOW_PX = 4;
const LABEL_THICKNESS_PX = 15;
const HELD_BUSY = 0.05; // a column in which the stream runs less counts as waiting
const LEAST_HELD_PX = 3;

export interface PileView {
  /** Layers that fit the lane, and the most queued at once in the window. */
  rows: number;
  deepest: number;
  rowPx: number;
}

/** How the pile fits its lane: zoomed in it is cropped to what moves. */
export function pileView(stream: Stream, from: number, to: number, heightPx: number): PileView {
  const { pile } = stream;
  const deepest = pile.maxDepth(from, to);
  const started = upTo(pile.start, to) - upTo(pile.start, from);
  const rows = Math.max(1, Math.min(deepest, Math.max(8, Math.ceil(1.15 * started))));
  return { rows, deepest, rowPx: Math.min(heightPx / rows, MOST_ROW_PX) };
}

interface Layer {
  first: number;
  last: number;
  key: number;
  colour: number;
}

/** The class that took most of the time of some ops. */
export function mainClass(stream: Stream, first = 0, last = stream.start.length): number {
  const time = new Float64Array(8);
  for (let i = first; i < last; i++) time[stream.cls[i]] += stream.end[i] - stream.start[i] + 1;
  return time.indexOf(Math.max(...time));
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

export function paintPile(f: Frame, row: Row): void {
  const stream = f.model.streams[row.index];
  const view = pileView(stream, f.scale.from, f.scale.to, row.h);
  if (!view.deepest) return;
  const columns = PileColumns.of(stream.pile, f.edges);
  const layers = layersOf(f, stream, view);
  const floor = row.y + row.h;
  const roof = row.y;
  const ink = f.palette.pixel(inkOf(stream), f.hits ? 0.5 : 1);
  const lines = layers.own && !f.moving && view.rowPx >= OWN_LINE_PX;
  paintLayers(f, columns, layers.all, view, floor, roof, lines ? ink : null);
  if (!f.moving && !layers.own) paintFlow(f, stream, columns, layers, view, floor, roof, ink);
  paintSurface(f, columns, view, floor, roof, ink, stream);
  paintHeld(f, stream, columns, view, floor, roof, ink);
}

interface Layers {
  all: Layer[];
  own: boolean;
  /** Ranks that are queued at some time in the window. */
  first: number;
  last: number;
}

function layersOf(f: Frame, stream: Stream, view: PileView): Layers {
  const { pile } = stream;
  const first = upTo(pile.start, f.scale.from);
  const last = upTo(pile.launch, f.scale.to);
  if (f.moving && f.step > 1 && f.model.streams.length > MANY_STREAMS && !f.hits) {
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

function columnOf(f: Frame, at: number): number {
  const n = f.edges.length - 1;
  return Math.max(0, Math.min(n - 1, Math.floor(((at - f.scale.from) / (f.scale.to - f.scale.from)) * n)));
}

/** lines: with the lower edge of every layer but the first, where each is one op. */
function paintLayers(
  f: Frame,
  columns: PileColumns,
  layers: Layer[],
  view: PileView,
  floor: number,
  roof: number,
  line: number | null,
): void {
  const { pile } = columns;
  // the upper edge of a layer is the lower one of the next: heights are kept, with the rank they belong to
  const edge = new Float64Array(columns.stretches.length);
  const ofRank = new Int32Array(columns.stretches.length).fill(-1);
  for (const layer of layers) {
    const last = columns.stretchOf(columnOf(f, pile.start[layer.last - 1]));
    for (let k = columns.stretchOf(columnOf(f, pile.launch[layer.first])); k <= last; k++) {
      const i = columns.stretches[k];
      const low = ofRank[k] === layer.first ? edge[k] : columns.level(layer.first, i);
      const high = columns.level(layer.last, i);
      edge[k] = high;
      ofRank[k] = layer.last;
      const y = floor - low * view.rowPx;
      if (high <= low || y <= roof) continue;
      const top = Math.max(roof, floor - high * view.rowPx) * f.dpr;
      const end = columns.endOf(k);
      f.px.box(i, top, end, y * f.dpr, layer.colour);
      if (line !== null && low > 0) f.px.shade(i, end, (y - 0.375) * f.dpr, (y + 0.375) * f.dpr, line, 0.45);
    }
  }
}

/** Where Python lays the next op; dashed where it is not known when the top one was laid. */
function paintSurface(
  f: Frame,
  columns: PileColumns,
  view: PileView,
  floor: number,
  roof: number,
  ink: number,
  stream: Stream,
): void {
  const width = 0.9 * f.dpr;
  const firstKnown = stream.orphans && stream.orphan[0] ? stream.runs[0].last : 0;
  let before = floor;
  for (let k = 0; k < columns.stretches.length; k++) {
    const first = columns.stretches[k];
    const depth = columns.depth(first);
    const y = depth > 0 ? Math.max(roof - 1, floor - depth * view.rowPx) : floor;
    const unknown = firstKnown > 0 && columns.launched[first + 1] <= firstKnown;
    for (let i = first; (y < floor || before < floor) && y >= roof && i < columns.endOf(k); i++) {
      if (unknown && Math.floor((i * f.step) / (2 * f.dpr)) % 2) continue;
      f.px.line(i, (i === first ? before : y) * f.dpr, y * f.dpr, width, ink, unknown ? 0.9 : 1);
      if (y === floor) break;
    }
    before = y;
  }
}

/** The paths of every k-th op, and of the first op of each layer. */
function paintFlow(
  f: Frame,
  stream: Stream,
  columns: PileColumns,
  layers: Layers,
  view: PileView,
  floor: number,
  roof: number,
  ink: number,
): void {
  const edges = new Set(layers.all.slice(1).map((layer) => layer.first));
  for (const rank of edges) path(f, stream, columns, rank, view, floor, roof, ink, 0.9);
  let each = 1;
  const perPx = (layers.last - layers.first) / f.scale.width;
  // among many piles one is looked at less closely
  const calm = f.model.streams.length > MANY_STREAMS ? 2 : 1;
  while (each * view.rowPx < calm * FLOW_GAP_PX || each < calm * FLOW_APART_PX * perPx) each *= 2;
  const least = LEAST_FLOW_PX / f.scale.pxPerNs;
  for (let rank = Math.ceil(layers.first / each) * each; rank < layers.last; rank += each) {
    const { pile } = columns;
    if (pile.start[rank] - pile.launch[rank] < least || edges.has(rank)) continue;
    path(f, stream, columns, rank, view, floor, roof, ink, 0.42);
  }
}

function path(
  f: Frame,
  _stream: Stream,
  columns: PileColumns,
  rank: number,
  view: PileView,
  floor: number,
  roof: number,
  ink: number,
  share: number,
): void {
  const { pile } = columns;
  if (rank >= pile.length) return;
  const from = columnOf(f, pile.launch[rank]);
  const to = columnOf(f, pile.start[rank]);
  const width = 0.75 * f.dpr;
  let before = NaN;
  for (let i = from; i <= to; i++) {
    if (f.edges[i] > pile.start[rank]) break;
    const level = columns.level(rank, i) * view.rowPx;
    const y = floor - level;
    if (level > 0.25 && y >= roof && pile.launch[rank] <= f.edges[i + 1]) {
      f.px.line(i, (Number.isNaN(before) ? y : before) * f.dpr, y * f.dpr, width, ink, share);
      before = y;
    } else before = NaN;
  }
}

/** Queued, and the stream runs nothing: another stream is waited for, or the launch is on its way. */
function paintHeld(
  f: Frame,
  stream: Stream,
  columns: PileColumns,
  view: PileView,
  floor: number,
  roof: number,
  ink: number,
): void {
  const n = f.edges.length - 1;
  const busy = stream.busy.shares(f.edges);
  const least = Math.ceil((LEAST_HELD_PX * f.dpr) / f.step);
  let from = -1;
  for (let i = 0; i <= n; i++) {
    const held = i < n && busy[i] < HELD_BUSY && columns.depth(i) > 0;
    if (held && from < 0) from = i;
    if (held || from < 0) continue;
    for (let k = from; k < i && i - from >= least; k++) {
      hatch(f, k, Math.max(roof, floor - columns.depth(k) * view.rowPx), floor, ink, 0.6, 0.9, true);
    }
    from = -1;
  }
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
  const px = f.step / f.dpr;
  return { x0: best[0] * px, x1: best[1] * px, y: row.y + row.h - ((low + high) / 2) * view.rowPx };
}

/** A centred label on a patch of ground. */
export function pill(f: Frame, words: string, x: number, y: number, width: number): void {
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
