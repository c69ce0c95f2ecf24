// How much of a pile its lane shows.
import { upTo } from "./sorted.ts";
import type { Stream } from "./store.ts";

const MOST_ROW_PX = 11;

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
