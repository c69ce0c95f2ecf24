// What lies under the pointer.
import { pileView } from "../model/crop.ts";
import { firstLevel, type Layout, LEVEL_PX, type Row, rowAt, type RowKind } from "../model/layout.ts";
import type { Scale } from "../model/scale.ts";
import { upTo } from "../model/sorted.ts";
import type { Model, Ref, Stream } from "../model/store.ts";
import type { Track } from "../model/track.ts";

export interface Picked {
  ref: Ref | null;
  row: Row | null;
  /** Slices that share the pixel column, the picked one among them. */
  folded: number;
}

export const REACH_PX = 2; // a slice narrower than a pixel is still found so far away

type Picker = (model: Model, row: Row, scale: Scale, x: number, y: number) => Ref | null;
export const PICKERS = new Map<RowKind, Picker>();

export function pick(model: Model, layout: Layout, scale: Scale, x: number, y: number): Picked {
  const row = rowAt(layout, y);
  const nothing: Picked = { ref: null, row, folded: 0 };
  if (!row || x < 0 || x >= scale.width) return nothing;
  const at = scale.ns(x);
  switch (row.kind) {
    case "lane":
      return { ...nothing, ...pickOp(model.streams[row.index], row, scale, x, y) };
    case "pile": {
      const found = pickQueued(model.streams[row.index], row, scale, at, y);
      return found < 0 ? nothing : { ...nothing, ref: { kind: "op", stream: row.index, row: found } };
    }
    case "thread": {
      const thread = model.threads[row.index];
      const level = firstLevel(thread, row) + Math.floor((y - row.y) / LEVEL_PX);
      const track = thread.levels[level];
      const found = track ? near(track, scale, x) : null;
      return found ? { ...nothing, ...found, ref: { kind: "host", thread: row.index, level, row: found.i } } : nothing;
    }
    case "launches": {
      const call = model.launches && near(model.launches.track, scale, x);
      const blocked = model.blocked ? blockedAt(model.blocked, at, REACH_PX / scale.pxPerNs) : -1;
      if (blocked >= 0) return { ...nothing, ref: { kind: "blocked", row: blocked } };
      return call ? { ...nothing, ...call, ref: { kind: "launch", row: call.i } } : nothing;
    }
    case "cell": {
      const found = model.cell ? model.cell.spans.at(at) : -1;
      return found < 0 ? nothing : { ...nothing, ref: { kind: "line", row: found } };
    }
    default:
      return { ...nothing, ref: PICKERS.get(row.kind)?.(model, row, scale, x, y) ?? null };
  }
}

interface Near {
  i: number;
  folded: number;
}

/** The longest slice of the pixel column, else the nearest within reach. */
function near(track: Track, scale: Scale, x: number): Near | null {
  const px = 1 / scale.pxPerNs;
  const at = scale.ns(x);
  for (const reach of [0.5, REACH_PX]) {
    const from = at - reach * px;
    const to = at + reach * px;
    const [first, last] = track.range(from, to);
    if (first >= last) continue;
    const i = track.longest(first, last);
    return { i, folded: last - first };
  }
  return null;
}

function pickOp(stream: Stream, row: Row, scale: Scale, x: number, y: number): Partial<Picked> {
  const index = row.index;
  let best: (Near & { track: Track; miss: number }) | null = null;
  for (const track of stream.tracks) {
    const found = near(track, scale, x);
    if (!found) continue;
    const split = track.split ? track.split[found.i] : 1;
    const top = row.y + (row.h / split) * track.subLane;
    const miss = Math.max(0, top - y, y - top - row.h / split);
    if (!best || miss < best.miss) best = { ...found, track, miss };
  }
  if (!best) return {};
  return { ref: { kind: "op", stream: index, row: best.track.rowOf(best.i) }, folded: best.folded };
}

/** The rank of the layer at a height of the pile, -1 above its surface. */
function pickQueued(stream: Stream, row: Row, scale: Scale, at: number, y: number): number {
  const { pile } = stream;
  const view = pileView(stream, scale.from, scale.to, row.h);
  const started = upTo(pile.start, at);
  const rank = started + Math.floor((row.y + row.h - y) / view.rowPx);
  return rank >= started && rank < upTo(pile.launch, at) ? rank : -1;
}

/** The innermost blocked call at an instant, or within reach of it. */
function blockedAt(blocked: NonNullable<Model["blocked"]>, at: number, reach: number): number {
  let best = -1;
  const last = upTo(blocked.start, at + reach);
  for (let i = last - 1; i >= Math.max(0, last - 64); i--) {
    if (
      blocked.end[i] >= at - reach &&
      (best < 0 || blocked.end[i] - blocked.start[i] < blocked.end[best] - blocked.start[best])
    ) {
      best = i;
    }
  }
  return best;
}
