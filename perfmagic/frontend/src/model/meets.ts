// Where several ranks meet: collectives on all their ranks, and messages from one to another.
import type { Columns } from "./decode.ts";
import { upTo } from "./sorted.ts";

const NOTHING = new Float64Array(0);
const BACK = 64; // parts of a row that may run at once

/** Rows are places among the model's ranks; parts stand by collective: those of i from first[i] on. */
export interface Meets {
  kinds: string[];
  met: Float64Array;
  waited: Float64Array;
  /** How far waits may be wrong. */
  err: Float64Array;
  /** The row that came last, -1 where the clocks do not tell. */
  last: Float64Array;
  kind: Float64Array;
  first: Int32Array;
  row: Float64Array;
  start: Float64Array;
  end: Float64Array;
  wait: Float64Array;
}

export interface Messages {
  /** When both ends had come. */
  met: Float64Array;
  source: Float64Array;
  target: Float64Array;
  sent: Float64Array;
  sentEnd: Float64Array;
  asked: Float64Array;
  arrived: Float64Array;
  /** The longest from both ends having come to its arrival. */
  longest: number;
}

export function meetsOf(kinds: string[], columns: Columns): Meets {
  const [meet, part] = [columns["meet"] ?? {}, columns["part"] ?? {}];
  const met = meet["met"] ?? NOTHING;
  const meeting = part["meeting"] ?? NOTHING;
  const first = new Int32Array(met.length + 1);
  for (const i of meeting) first[i + 1]++;
  for (let i = 0; i < met.length; i++) first[i + 1] += first[i];
  const start = Float64Array.from(meeting, (i, p) => met[i] - part["start"][p]);
  const end = start.map((at, p) => at + part["length"][p]);
  const of = (name: string): Float64Array => meet[name] ?? NOTHING;
  const [row, wait] = [part["row"] ?? NOTHING, part["wait"] ?? NOTHING];
  return {
    kinds,
    met,
    waited: of("waited"),
    err: of("err"),
    last: of("last"),
    kind: of("kind"),
    first,
    row,
    start,
    end,
    wait,
  };
}

export function messagesOf(columns: Columns): Messages {
  const table = columns["message"] ?? {};
  const met = table["met"] ?? NOTHING;
  const at = (name: string): Float64Array => met.map((both, i) => both + table[name][i]);
  const arrived = at("arrived");
  const longest = arrived.reduce((most, ns, i) => Math.max(most, ns - met[i]), 0);
  const [source, target] = [table["source"] ?? NOTHING, table["target"] ?? NOTHING];
  return { met, source, target, sent: at("sent"), sentEnd: at("sent_end"), asked: at("asked"), arrived, longest };
}

/** What a row takes part in, by start: collectives and sends above, receives below. */
export interface Taken {
  start: Float64Array;
  end: Float64Array;
  below: Uint8Array;
  /** The collective, or -1 less the message. */
  which: Int32Array;
}

const made = new WeakMap<Meets, Taken[]>();

export function takenBy(meets: Meets, messages: Messages, row: number): Taken {
  let all = made.get(meets);
  if (!all) made.set(meets, (all = taken(meets, messages)));
  return all[row] ?? { start: NOTHING, end: NOTHING, below: new Uint8Array(0), which: new Int32Array(0) };
}

function taken(meets: Meets, messages: Messages): Taken[] {
  const rows: { start: number; end: number; below: number; which: number }[][] = [];
  const add = (row: number, start: number, end: number, below: number, which: number): void => {
    (rows[row] ??= []).push({ start, end, below, which });
  };
  for (let i = 0; i < meets.met.length; i++)
    for (let p = meets.first[i]; p < meets.first[i + 1]; p++) add(meets.row[p], meets.start[p], meets.end[p], 0, i);
  for (let i = 0; i < messages.met.length; i++) {
    add(messages.source[i], messages.sent[i], messages.sentEnd[i], 0, -1 - i);
    add(messages.target[i], messages.asked[i], messages.arrived[i], 1, -1 - i);
  }
  return Array.from(rows, (some = []) => {
    some.sort((a, b) => a.start - b.start);
    return {
      start: Float64Array.from(some, (one) => one.start),
      end: Float64Array.from(some, (one) => one.end),
      below: Uint8Array.from(some, (one) => one.below),
      which: Int32Array.from(some, (one) => one.which),
    };
  });
}

/** The shortest part of a row within reach of an instant; null where there is none. */
export function takenAt({ start, end, below, which }: Taken, at: number, reach: number, lower: boolean): number | null {
  let best = -1;
  const last = upTo(start, at + reach);
  for (let i = last - 1; i >= Math.max(0, last - BACK); i--) {
    if (end[i] < at - reach || below[i] !== Number(lower)) continue;
    if (best < 0 || end[i] - start[i] < end[best] - start[best]) best = i;
  }
  return best < 0 ? null : which[best];
}
