// The executing row of a stream, its strip of cell lines, and the staves over a whole device.
import { CLASS_TOKENS, COMM, COMPUTE, DTOD, DTOH, HTOD, MATRIX, MEMSET, PTOP, UNKNOWN } from "../model/classes.ts";
import type { Row } from "../model/layout.ts";
import { BEFORE_THE_RECORD } from "../model/pile.ts";
import type { Spans } from "../model/spans.ts";
import { shortName, type Stream } from "../model/store.ts";
import type { Track } from "../model/track.ts";
import { bar, box, type Frame, strength } from "./draw.ts";
import { type Detail, detailOf } from "./lod.ts";
import { lineTones } from "./python.ts";
import { DIMMED_SHARE, HIDDEN_SHARE } from "./theme.ts";
import { say } from "../model/words.ts";

const SLICE_PX = 2;
const NAME_FROM_PX = 34;
const MEMSET_SHARE = 0.55;
const TICK_PX = 2.5;
const STACK = [MATRIX, COMPUTE, UNKNOWN, MEMSET, DTOD, PTOP, HTOD, DTOH, COMM]; // from the lane's floor up

export function paintLane(f: Frame, row: Row): void {
  const stream = f.model.streams[row.index];
  const detail = detailOf(stream.tracks, f.scale, f.edges, SLICE_PX, f.hits, stream);
  box(f, 0, row.y + row.h, f.scale.width, row.y + row.h + 1, f.palette.pixel("rule"));
  paintShares(f, row, detail);
  for (const { track, row: i } of detail.wide) paintSlice(f, row, stream, track, i);
  if (f.hits) paintTicks(f, row, stream, detail);
}

function paintShares(f: Frame, row: Row, detail: Detail): void {
  const present = STACK.filter((c) => detail.shares[c]);
  if (!present.length) return;
  const n = f.edges.length - 1;
  // hits stand on the floor in full colour, the rest above them, pale
  const layers: [Float64Array, number, number][] = [];
  for (const c of present) {
    const all = detail.shares[c]!;
    const scale = c === MEMSET ? MEMSET_SHARE : 1;
    const hit = detail.hit?.[c];
    if (hit) layers.push([hit, f.palette.pixel(CLASS_TOKENS[c], strength(f, c, true)), scale]);
    if (!detail.hit) layers.push([all, f.palette.pixel(CLASS_TOKENS[c], strength(f, c, true)), scale]);
  }
  if (detail.hit) {
    for (const c of present) {
      const rest = detail.shares[c]!.map((v, i) => v - (detail.hit![c]?.[i] ?? 0));
      layers.push([rest, f.palette.pixel(CLASS_TOKENS[c], DIMMED_SHARE), c === MEMSET ? MEMSET_SHARE : 1]);
    }
  }
  const least = 0.4 / row.h;
  const tops = new Float64Array(layers.length + 1);
  for (let i = 0; i < n; i++) {
    layers.forEach(([shares, , scale], k) => {
      tops[k + 1] = shares[i] > 1e-9 ? Math.min(1, tops[k] + Math.max(least, shares[i] * scale)) : tops[k];
    });
    // from above, each down to a whole pixel: what stands under it is laid over its end
    for (let k = layers.length; k > 0; k--) {
      if (tops[k] === tops[k - 1]) continue;
      const end = Math.ceil((row.y + row.h * (1 - tops[k - 1])) * f.dpr);
      f.px.column(i, (row.y + row.h * (1 - tops[k])) * f.dpr, end, layers[k - 1][1]);
    }
  }
}

/** Top and height of a slice in its lane: slices that overlap share the height. */
export function sliceBox(row: Row, track: Track, i: number): [number, number] {
  const part = row.h / (track.split ? track.split[i] : 1);
  const tall = track.cls[i] === MEMSET ? part * MEMSET_SHARE : part;
  return [row.y + track.subLane * part + part - tall, tall];
}

function paintSlice(f: Frame, row: Row, stream: Stream, track: Track, i: number): void {
  const [y, h] = sliceBox(row, track, i);
  const x0 = f.scale.xIn(track.start[i]);
  const x1 = f.scale.xIn(track.end[i]);
  const hit = !f.hits || f.hits.has(stream, track.rowOf(i));
  const colour = f.palette.pixel(CLASS_TOKENS[track.cls[i]], strength(f, track.cls[i], hit));
  box(f, x0, y, Math.max(x0 + 0.5, x1 - 0.5), y + h, colour);
}

/** Under each hit, so that hits below a pixel are seen. */
function paintTicks(f: Frame, row: Row, stream: Stream, detail: Detail): void {
  const colour = f.palette.pixel("accent");
  const y = row.y + row.h;
  for (const hit of detail.hit ?? []) {
    hit?.forEach((share, i) => {
      if (share > 1e-9) bar(f, i, y, y + TICK_PX, colour);
    });
  }
  for (const { track, row: i } of detail.wide) {
    if (!f.hits!.has(stream, track.rowOf(i))) continue;
    box(f, f.scale.xIn(track.start[i]), y, f.scale.xIn(track.end[i]) - 0.5, y + TICK_PX, colour);
  }
}

export function writeLane(f: Frame, row: Row): void {
  const stream = f.model.streams[row.index];
  for (const track of stream.tracks) {
    const [first, last] = track.range(f.scale.from, f.scale.to);
    track.atLeast(NAME_FROM_PX / f.scale.pxPerNs, first, last, (i) => {
      const [y, h] = sliceBox(row, track, i);
      const x0 = f.scale.xIn(track.start[i]);
      const words = f.text.fitted(shortName(f.model, track.name[i]), f.scale.xIn(track.end[i]) - x0 - 8, { size: 10 });
      const hit = !f.hits || f.hits.has(stream, track.rowOf(i));
      if (!words || h < 9 || strength(f, track.cls[i], hit) < 1) return;
      const colour = f.palette.css(`on_${CLASS_TOKENS[track.cls[i]]}`);
      f.text.write(words, x0 + 4, y + h / 2 + 0.5, { size: 10, colour });
    });
  }
}

/** Which line's ops run: the cell row once more, in device time. */
export function eachRun(f: Frame, stream: Stream, take: (key: number, x0: number, x1: number) => void): void {
  for (const run of stream.runs) {
    const from = stream.start[run.first];
    const to = stream.end[run.last - 1];
    if (to <= f.scale.from || from >= f.scale.to) continue;
    const x0 = f.scale.xIn(from);
    const x1 = f.scale.xIn(to);
    if (x1 - x0 >= 0.5) take(run.key, x0, x1);
  }
}

export function paintStrip(f: Frame, row: Row): void {
  const tones = lineTones(f.model.cell);
  eachRun(f, f.model.streams[row.index], (key, x0, x1) => {
    box(f, x0, row.y, Math.max(x0 + 0.5, x1 - 0.75), row.y + row.h, f.palette.pixel(tones.get(key) ?? "host3"));
    if (key > 0 && key === f.state.line) box(f, x0, row.y, x1 - 0.75, row.y + 2, f.palette.pixel("ink"));
  });
}

export function writeStrip(f: Frame, row: Row): void {
  eachRun(f, f.model.streams[row.index], (key, x0, x1) => {
    const words =
      key === BEFORE_THE_RECORD || key === 0
        ? [say("before this cell")]
        : [say("line {line}", { line: key }), String(key)];
    const fits = words.find((w) => f.text.width(w, { size: 10 }) <= x1 - x0 - 6);
    if (fits) f.text.write(fits, x0 + 4, row.y + row.h / 2 + 1, { size: 10, colour: f.palette.css("hostink") });
  });
}

/** Unions over a device. Pale: hidden under compute.  Full: exposed. */
export function paintStave(f: Frame, row: Row): void {
  const stave = f.model.groups[row.index].staves[row.sub];
  const n = f.edges.length - 1;
  const floor = new Float64Array(n);
  const layer = (spans: Spans, colour: number, taken: Float64Array | null): Float64Array => {
    const shares = spans.shares(f.edges);
    for (let i = 0; i < n; i++) {
      const share = Math.min(1 - floor[i], shares[i] - (taken ? taken[i] : 0));
      if (share <= 1e-9) continue;
      const high = Math.max(0.4, share * row.h);
      const base = row.y + row.h * (1 - floor[i]);
      bar(f, i, Math.max(row.y, base - high), base, colour);
      floor[i] += share;
    }
    return shares;
  };
  for (const part of stave.parts) {
    const bare = layer(part.exposed, f.palette.pixel(part.token), null);
    if (part.active !== part.exposed) layer(part.active, f.palette.pixel(part.token, HIDDEN_SHARE), bare);
  }
  box(f, 0, row.y + row.h, f.scale.width, row.y + row.h + 0.5, f.palette.pixel("rule"));
}
