// The pile of a stream: queued layers, the surface, flow lines, and the hatching where the stream idles.
import { type PileView, pileView } from "../model/crop.ts";
import type { Row } from "../model/layout.ts";
import { PileColumns } from "../model/pile.ts";
import type { Stream } from "../model/store.ts";
import { columnOf, type Frame, hatch } from "./draw.ts";
import { inkOf, isCrowded, type Layer, type Layers, layersOf } from "./layers.ts";
import type { Pixel } from "./theme.ts";

const OWN_EDGE_PX = 2.5; // below it the alternating tints tell the layers apart
const FLOW_GAP_PX = 6; // between two flow lines, upwards
const FLOW_APART_PX = 5; // and to the side: nearer they would only tint the pile
const LEAST_FLOW_PX = 4;
const HELD_BUSY = 0.05; // a column in which the stream runs less counts as waiting
const LEAST_HELD_PX = 3;

/** A pile in its lane. */
interface Pile {
  stream: Stream;
  columns: PileColumns;
  view: PileView;
  /** Lower and upper edge, CSS pixels. */
  floor: number;
  roof: number;
  ink: Pixel;
}

export function paintPile(f: Frame, row: Row): void {
  const stream = f.model.streams[row.index];
  const view = pileView(stream, f.scale.from, f.scale.to, row.h);
  if (!view.deepest) return;
  const columns = PileColumns.of(stream.pile, f.edges);
  const layers = layersOf(f, stream, view);
  const ink = f.palette.pixel(inkOf(stream), f.hits ? 0.5 : 1);
  const pile: Pile = { stream, columns, view, floor: row.y + row.h, roof: row.y, ink };
  paintLayers(f, pile, layers.all, layers.own && !f.moving && view.rowPx >= OWN_EDGE_PX);
  if (!f.moving && !layers.own) paintFlow(f, pile, layers);
  paintSurface(f, pile);
  paintHeld(f, pile);
}

/** Each queued layer, from launch to start. edged: with the lower edge of every layer but the first. */
function paintLayers(f: Frame, { columns, view, floor, roof, ink }: Pile, layers: Layer[], edged: boolean): void {
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
      if (edged && low > 0) f.px.shade(i, end, (y - 0.375) * f.dpr, (y + 0.375) * f.dpr, ink, 0.45);
    }
  }
}

/** Where Python lays the next op; dashed where it is not known when the top one was laid. */
function paintSurface(f: Frame, { stream, columns, view, floor, roof, ink }: Pile): void {
  const width = 0.9 * f.dpr;
  const firstKnown = stream.orphans && stream.orphan[0] ? stream.runs[0].last : 0;
  let before = floor;
  for (let k = 0; k < columns.stretches.length; k++) {
    const first = columns.stretches[k];
    const depth = columns.depth(first);
    const y = depth > 0 ? Math.max(roof - 1, floor - depth * view.rowPx) : floor;
    const unknown = firstKnown > 0 && columns.launched[first + 1] <= firstKnown;
    for (let i = first; (y < floor || before < floor) && y >= roof && i < columns.endOf(k); i++) {
      if (unknown && Math.floor((i * f.columnPx) / (2 * f.dpr)) % 2) continue;
      f.px.stroke(i, (i === first ? before : y) * f.dpr, y * f.dpr, width, ink, unknown ? 0.9 : 1);
      if (y === floor) break;
    }
    before = y;
  }
}

/** The paths of every k-th op, and of the first op of each layer. */
function paintFlow(f: Frame, pile: Pile, layers: Layers): void {
  const { columns, view } = pile;
  const edges = new Set(layers.all.slice(1).map((layer) => layer.first));
  for (const rank of edges) flowLine(f, pile, rank, 0.9);
  let each = 1;
  const perPx = (layers.last - layers.first) / f.scale.width;
  const calm = isCrowded(f) ? 2 : 1;
  while (each * view.rowPx < calm * FLOW_GAP_PX || each < calm * FLOW_APART_PX * perPx) each *= 2;
  const least = LEAST_FLOW_PX / f.scale.pxPerNs;
  for (let rank = Math.ceil(layers.first / each) * each; rank < layers.last; rank += each) {
    const { start, launch } = columns.pile;
    if (start[rank] - launch[rank] < least || edges.has(rank)) continue;
    flowLine(f, pile, rank, 0.42);
  }
}

function flowLine(f: Frame, { columns, view, floor, roof, ink }: Pile, rank: number, share: number): void {
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
      f.px.stroke(i, (Number.isNaN(before) ? y : before) * f.dpr, y * f.dpr, width, ink, share);
      before = y;
    } else before = NaN;
  }
}

/** Queued, and the stream runs nothing: another stream is waited for, or the launch is on its way. */
function paintHeld(f: Frame, { stream, columns, view, floor, roof, ink }: Pile): void {
  const n = f.edges.length - 1;
  const busy = stream.busy.shares(f.edges);
  const least = Math.ceil((LEAST_HELD_PX * f.dpr) / f.columnPx);
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
