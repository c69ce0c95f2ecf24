// Disjoint intervals in time order, half-open, with prefix sums: how much of any range they cover, exactly.
import { below, marksOf, upTo } from "./sorted.ts";

export class Spans {
  /** before[i]: length of the first i intervals. */
  private before: Float64Array | null = null;

  constructor(
    readonly start: Float64Array,
    readonly end: Float64Array,
  ) {}

  get length(): number {
    return this.start.length;
  }

  get total(): number {
    return this.sums()[this.length];
  }

  /** The covered part of [from, to), ns. */
  covered(from: number, to: number): number {
    return to <= from || !this.length ? 0 : this.upTo(to) - this.upTo(from);
  }

  /** Share of each column that is covered. edges: columns + 1 instants, rising. */
  shares(edges: Float64Array, out = new Float64Array(edges.length - 1)): Float64Array {
    const { start, end } = this;
    const sums = this.sums();
    const marks = marksOf(start, edges);
    let previous = 0;
    for (let i = 0; i <= out.length; i++) {
      const at = marks[i];
      const now = at ? sums[at] - Math.max(0, end[at - 1] - edges[i]) : 0;
      if (i) out[i - 1] = Math.min(1, (now - previous) / (edges[i] - edges[i - 1]));
      previous = now;
    }
    return out;
  }

  /** The interval that holds an instant, -1 where none does. */
  at(instant: number): number {
    const row = upTo(this.start, instant) - 1;
    return row >= 0 && this.end[row] > instant ? row : -1;
  }

  private upTo(instant: number): number {
    const at = below(this.start, instant);
    return at ? this.sums()[at] - Math.max(0, this.end[at - 1] - instant) : 0;
  }

  private sums(): Float64Array {
    if (!this.before) {
      const sums = (this.before = new Float64Array(this.length + 1));
      for (let i = 0; i < this.length; i++) sums[i + 1] = sums[i] + this.end[i] - this.start[i];
    }
    return this.before;
  }
}

export const NOTHING = new Spans(new Float64Array(0), new Float64Array(0));

/** The union of intervals sorted by start, of which `keep` says which count. */
export function unionOf(start: Float64Array, end: Float64Array, keep?: (row: number) => boolean): Spans {
  const from = new Float64Array(start.length);
  const to = new Float64Array(start.length);
  let n = 0;
  for (let i = 0; i < start.length; i++) {
    if ((keep && !keep(i)) || end[i] <= start[i]) continue;
    if (n && start[i] <= to[n - 1]) to[n - 1] = Math.max(to[n - 1], end[i]);
    else {
      from[n] = start[i];
      to[n++] = end[i];
    }
  }
  return new Spans(from.slice(0, n), to.slice(0, n));
}

/** What at least one of several covers: pairs are merged, so each interval is met log2(count) times. */
export function unionAll(parts: Spans[]): Spans {
  if (!parts.length) return NOTHING;
  while (parts.length > 1) {
    const next: Spans[] = [];
    for (let i = 0; i < parts.length; i += 2)
      next.push(i + 1 < parts.length ? merged(parts[i], parts[i + 1]) : parts[i]);
    parts = next;
  }
  return parts[0];
}

function merged(a: Spans, b: Spans): Spans {
  const n = a.length + b.length;
  const start = new Float64Array(n);
  const end = new Float64Array(n);
  let i = 0;
  let j = 0;
  for (let k = 0; k < n; k++) {
    const first = j >= b.length || (i < a.length && a.start[i] <= b.start[j]);
    start[k] = first ? a.start[i] : b.start[j];
    end[k] = first ? a.end[i++] : b.end[j++];
  }
  return unionOf(start, end);
}

/** The part of a that b does not cover. */
export function subtract(a: Spans, b: Spans): Spans {
  const start: number[] = [];
  const end: number[] = [];
  let j = 0;
  for (let i = 0; i < a.length; i++) {
    let from = a.start[i];
    while (j < b.length && b.end[j] <= from) j++;
    for (let k = j; k < b.length && b.start[k] < a.end[i]; k++) {
      if (b.start[k] > from) {
        start.push(from);
        end.push(b.start[k]);
      }
      from = Math.max(from, b.end[k]);
    }
    if (from < a.end[i]) {
      start.push(from);
      end.push(a.end[i]);
    }
  }
  return new Spans(Float64Array.from(start), Float64Array.from(end));
}

/** The gaps between disjoint intervals, from the first start to the last end. */
export function gaps(a: Spans): Spans {
  return a.length < 2 ? NOTHING : new Spans(a.end.slice(0, -1), a.start.slice(1));
}
