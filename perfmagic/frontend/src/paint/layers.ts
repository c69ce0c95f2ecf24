// The layers of a pile: one op each where rows are thick enough, else the runs of ops that one cell line launched, in
// alternating tints.
import { CLASS_TOKENS, COMPUTE, MATRIX } from "../model/classes.ts";
import type { PileView } from "../model/crop.ts";
import { BEFORE_THE_RECORD, type Run } from "../model/pile.ts";
import { upTo } from "../model/sorted.ts";
import type { Stream } from "../model/store.ts";
import { mainClass } from "../model/totals.ts";
import type { Frame } from "./draw.ts";
import { DIMMED_SHARE } from "./theme.ts";

const OWN_ROW_PX = 1.5; // rows at least so thick are one op each, in its own class colour
const MOST_OWN = 600;
const MOST_RUNS = 300;
const MANY_STREAMS = 8; // piles of more are drawn with less care

/** Whether there are too many piles to look at one closely. */
export function isCrowded(f: Frame): boolean {
  return f.model.streams.length > MANY_STREAMS;
}

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
  if (f.moving && f.columnPx > 1 && isCrowded(f) && !f.hits) {
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
