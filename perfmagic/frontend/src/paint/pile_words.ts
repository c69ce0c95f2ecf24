// What is written on a pile: each layer's line, in its longest stretch that is thick enough.
import { type PileView, pileView } from "../model/crop.ts";
import type { Row } from "../model/layout.ts";
import { BEFORE_THE_RECORD, PileColumns } from "../model/pile.ts";
import { count } from "../model/units.ts";
import { columnOf, type Frame } from "./draw.ts";
import { inkOf, type Layer, layersOf } from "./layers.ts";
import { tornEdge } from "./torn.ts";
import { say } from "../model/words.ts";

const LABEL_THICKNESS_PX = 15;

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
  if (key === BEFORE_THE_RECORD) return say("{n} launched before the recording", { n: count(n) });
  if (!f.model.cell) return "";
  return key === 0 ? say("before this cell") : say("line {line}", { line: key });
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
