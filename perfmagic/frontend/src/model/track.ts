// One row of slices that do not overlap, in time order: what can be drawn, summed and pointed at.
import { CLASSES } from "./classes.ts";
import { Pyramid } from "./pyramid.ts";
import { marksOf, upTo } from "./sorted.ts";

export interface TrackColumns {
  start: Float64Array;
  end: Float64Array;
  name: ArrayLike<number>;
  cls: Uint8Array;
  /** How many sub-lanes share the lane's height at the slice; null where one has all of it. */
  split: Uint8Array | null;
  /** The slice's row in its lane's columns; null where it is the row here. */
  row: Int32Array | null;
}

export class Track implements TrackColumns {
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly name: ArrayLike<number>;
  readonly cls: Uint8Array;
  readonly split: Uint8Array | null;
  readonly row: Int32Array | null;
  readonly classes: readonly number[];
  private prefix: (Float64Array | undefined)[] | null = null;
  private durations: Pyramid | null = null;

  constructor(
    columns: TrackColumns,
    readonly subLane = 0,
  ) {
    ({ start: this.start, end: this.end, name: this.name, cls: this.cls, split: this.split, row: this.row } = columns);
    const present = new Uint8Array(CLASSES);
    for (let i = 0; i < this.length; i++) present[this.cls[i]] = 1;
    this.classes = [...present.keys()].filter((cls) => present[cls]);
  }

  get length(): number {
    return this.start.length;
  }

  rowOf(i: number): number {
    return this.row ? this.row[i] : i;
  }

  /** Slices that reach into [from, to): rows [first, last). */
  range(from: number, to: number): [number, number] {
    const first = upTo(this.start, from);
    const last = upTo(this.start, to, first);
    return [first && this.end[first - 1] > from ? first - 1 : first, last];
  }

  /** For each class, the running sum of durations (by share of the lane's height); null counts every slice. */
  prefixSums(counts: ((i: number) => boolean) | null): (Float64Array | undefined)[] {
    const { start, end, cls, split, length } = this;
    const sums: (Float64Array | undefined)[] = [];
    const running = new Float64Array(CLASSES);
    for (const c of this.classes) sums[c] = new Float64Array(length + 1);
    for (let i = 0; i < length; i++) {
      if (!counts || counts(i)) running[cls[i]] += (end[i] - start[i]) / (split ? split[i] : 1);
      for (const c of this.classes) sums[c]![i + 1] = running[c];
    }
    return sums;
  }

  /**
   * Adds to out[class] the share of each column that slices of the class cover.
   * edges: columns + 1 instants, rising.  sums: prefix sums of only some slices (`counts` says which), all by default.
   */
  addShares(
    edges: Float64Array,
    out: (Float64Array | undefined)[],
    sums = (this.prefix ??= this.prefixSums(null)),
    counts: ((i: number) => boolean) | null = null,
  ): void {
    const { start, end, cls, split } = this;
    const n = edges.length - 1;
    const marks = marksOf(start, edges);
    if (marks[n] === 0) return;
    for (const c of this.classes) {
      const shares = out[c]!;
      const running = sums[c]!;
      let previous = running[marks[0]];
      for (let i = 0; i < n; i++) {
        const now = running[marks[i + 1]];
        if (now !== previous) shares[i] += (now - previous) / (edges[i + 1] - edges[i]);
        previous = now;
      }
    }
    // what the sums count of a slice that goes on after an edge belongs to the columns after that edge
    for (let i = 0; i <= n; i++) {
      const last = marks[i] - 1;
      if (last < 0 || end[last] <= edges[i] || (counts && !counts(last))) continue;
      const rest = (end[last] - edges[i]) / (split ? split[last] : 1);
      const shares = out[cls[last]]!;
      if (i > 0) shares[i - 1] -= rest / (edges[i] - edges[i - 1]);
      if (i < n) shares[i] += rest / (edges[i + 1] - edges[i]);
    }
  }

  /** Calls `take` with every slice in rows [first, last) that is at least so long, in time order. */
  atLeast(ns: number, first: number, last: number, take: (i: number) => void): void {
    this.lengths().atLeast(ns, first, last, Infinity, take);
  }

  /** The longest slice in rows [first, last), -1 for none. */
  longest(first: number, last: number): number {
    return this.lengths().argmax(first, last);
  }

  private lengths(): Pyramid {
    if (!this.durations) {
      const length = new Float64Array(this.length);
      for (let i = 0; i < length.length; i++) length[i] = this.end[i] - this.start[i];
      this.durations = new Pyramid(length);
    }
    return this.durations;
  }
}
