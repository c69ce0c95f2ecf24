// Level of detail of a lane: slices wide enough to be seen alone, and for the rest what share of each column they take.
// Exact whatever the zoom: a column that is 3 % busy has a share of 0.03.
import { CLASSES } from "../model/classes.ts";
import type { Hits } from "../model/hits.ts";
import type { Scale } from "../model/scale.ts";
import type { Stream } from "../model/store.ts";
import type { Track } from "../model/track.ts";

export interface Detail {
  /** Slices drawn one by one, in time order, with their track. */
  wide: { track: Track; row: number }[];
  /** Share of each column by class, of the other slices; undefined where a class does not occur. */
  shares: (Float64Array | undefined)[];
  /** The part of the shares that is hits; null where nothing is marked. */
  hit: (Float64Array | undefined)[] | null;
}

/** stream: whose ops these are, for hits by line; null for host tracks. */
export function detailOf(
  tracks: readonly Track[],
  scale: Scale,
  edges: Float64Array,
  leastPx: number,
  hits: Hits | null = null,
  stream: Stream | null = null,
): Detail {
  const wide: Detail["wide"] = [];
  const shares: Detail["shares"] = new Array(CLASSES);
  const hit: Detail["hit"] = hits ? new Array(CLASSES) : null;
  const leastNs = leastPx / scale.pxPerNs;
  for (const track of tracks) {
    const [first, last] = track.range(scale.from, scale.to);
    const from = wide.length;
    track.atLeast(leastNs, first, last, (row) => wide.push({ track, row }));
    if (wide.length - from === last - first) continue;
    for (const c of track.classes) {
      shares[c] ??= new Float64Array(edges.length - 1);
      if (hit) hit[c] ??= new Float64Array(edges.length - 1);
    }
    track.addShares(edges, shares);
    for (let i = from; i < wide.length; i++) takeOut(track, wide[i].row, edges, shares);
    if (!hits || !hit) continue;
    const counts = (i: number): boolean => (stream ? hits.has(stream, track.rowOf(i)) : hits.hasName(track.name[i]));
    track.addShares(edges, hit, hits.sumsOf(track, counts), counts);
    for (let i = from; i < wide.length; i++) if (counts(wide[i].row)) takeOut(track, wide[i].row, edges, hit);
  }
  return { wide, shares, hit };
}

/** Takes a slice that is drawn alone out of the shares. */
function takeOut(track: Track, row: number, edges: Float64Array, out: (Float64Array | undefined)[]): void {
  const shares = out[track.cls[row]]!;
  const n = shares.length;
  const width = (edges[n] - edges[0]) / n;
  const start = track.start[row];
  const end = track.end[row];
  const part = 1 / (track.split ? track.split[row] : 1);
  const first = Math.max(0, Math.floor((start - edges[0]) / width) - 1);
  const last = Math.min(n - 1, Math.floor((end - edges[0]) / width) + 1);
  for (let i = first; i <= last; i++) {
    const covered = Math.min(end, edges[i + 1]) - Math.max(start, edges[i]);
    if (covered > 0) {
      const rest = shares[i] - (covered / (edges[i + 1] - edges[i])) * part;
      shares[i] = rest > 1e-6 ? rest : 0;
    }
  }
}
