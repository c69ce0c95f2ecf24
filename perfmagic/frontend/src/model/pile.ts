// The pile of a stream: ops launched and not started, each at the level of its rank minus the number started.
// Heights are means over columns, as in perfmagic/view/timeline/lanes.py, so that a column's area is the waiting time in it.
import { Pyramid } from "./pyramid.ts";
import { gallop, marksOf, rises, upTo } from "./sorted.ts";

const FEW = 6; // up to this many events are added one by one: differences of large sums would lose nanoseconds

export const BEFORE_THE_RECORD = -1; // the key of layers whose launch was not recorded; other keys are cell lines

export interface Run {
  /** Ranks [first, last) that belong together: one cell line, one tint. */
  first: number;
  last: number;
  key: number;
}

export class Pile {
  readonly start: Float64Array;
  /** Rising; the launch of the op of that rank, as streams start ops in the order of their launches. */
  readonly launch: Float64Array;
  private readonly launchSums: Float64Array;
  private readonly startSums: Float64Array;
  private depths: Pyramid | null = null;
  private depthAtLaunch: Int32Array | null = null;

  constructor(launch: Float64Array, start: Float64Array) {
    this.start = start;
    this.launch = rises(launch) ? launch : launch.slice().sort();
    this.launchSums = running(this.launch);
    this.startSums = running(start);
  }

  get length(): number {
    return this.start.length;
  }

  /** Ops queued at an instant. */
  depthAt(instant: number): number {
    return upTo(this.launch, instant) - upTo(this.start, instant);
  }

  /** The most ops queued at once in [from, to). */
  maxDepth(from: number, to: number): number {
    if (!this.depths) {
      const depth = (this.depthAtLaunch = new Int32Array(this.length));
      let started = 0;
      for (let i = 0; i < depth.length; i++) {
        started = gallop(this.start, this.launch[i], started);
        depth[i] = i + 1 - started;
      }
      this.depths = new Pyramid(depth);
    }
    const row = this.depths.argmax(upTo(this.launch, from), upTo(this.launch, to));
    return Math.max(0, this.depthAt(from), row < 0 ? 0 : this.depthAtLaunch![row]);
  }

  /** Time-weighted mean of the ops queued in [from, to). */
  meanDepth(from: number, to: number): number {
    return to > from ? new PileColumns(this, Float64Array.of(from, to)).level(this.length, 0) : 0;
  }

  /** Neighbouring ranks with the same key, bottom first. */
  runs(keys: ArrayLike<number>): Run[] {
    const runs: Run[] = [];
    for (let i = 0; i < this.length; i++) {
      const open = runs[runs.length - 1];
      if (open && open.key === keys[i]) open.last = i + 1;
      else runs.push({ first: i, last: i + 1, key: keys[i] });
    }
    return runs;
  }

  /** Σ (edge − launch) over ranks [from, to), all launched before the edge. */
  sinceLaunch(from: number, to: number, edge: number): number {
    return since(this.launch, this.launchSums, from, to, edge);
  }

  sinceStart(from: number, to: number, edge: number): number {
    return since(this.start, this.startSums, from, to, edge);
  }
}

const framed = new WeakMap<Float64Array, Map<Pile, PileColumns>>();

/** A pile cut into columns. edges: columns + 1 instants, rising. */
export class PileColumns {
  /** How many ops were launched, and started, up to each edge. */
  readonly launched: Int32Array;
  readonly started: Int32Array;
  /** First columns of the stretches in which no height changes, rising; a column with an event is one of its own. */
  readonly stretches: Int32Array;
  /** Mean depth of each column, -1 until it is asked for. */
  private readonly depths: Float64Array;

  constructor(
    readonly pile: Pile,
    readonly edges: Float64Array,
  ) {
    this.launched = marksOf(pile.launch, edges);
    this.started = marksOf(pile.start, edges);
    this.stretches = this.cut();
    this.depths = new Float64Array(edges.length - 1).fill(-1);
  }

  /** The same columns for all painters of a frame. */
  static of(pile: Pile, edges: Float64Array): PileColumns {
    let known = framed.get(edges);
    if (!known) framed.set(edges, (known = new Map<Pile, PileColumns>()));
    let columns = known.get(pile);
    if (!columns) known.set(pile, (columns = new PileColumns(pile, edges)));
    return columns;
  }

  /** The number of the stretch that holds a column. */
  stretchOf(column: number): number {
    return upTo(this.stretches, column) - 1;
  }

  /** The column after a stretch. */
  endOf(stretch: number): number {
    return stretch + 1 < this.stretches.length ? this.stretches[stretch + 1] : this.edges.length - 1;
  }

  private cut(): Int32Array {
    const { launched, started } = this;
    const n = this.edges.length - 1;
    const found = new Int32Array(n);
    let count = 0;
    let calm = false;
    for (let i = 0; i < n; i++) {
      const still = launched[i] === launched[i + 1] && started[i] === started[i + 1];
      if (!still || !calm) found[count++] = i;
      calm = still;
    }
    return found.subarray(0, count);
  }

  /** Mean number of queued ops of lower rank in a column: the height of the lower edge of the op of that rank. */
  level(rank: number, column: number): number {
    const { launched, started, pile, edges } = this;
    const s0 = started[column];
    if (rank <= s0) return 0;
    const s1 = started[column + 1];
    const l0 = launched[column];
    const l1 = launched[column + 1];
    if (rank > l1) return this.depth(column);
    const standing = Math.min(rank, l0) - Math.min(rank, s0);
    if (s0 === s1 && l0 === l1) return standing;
    const edge = edges[column + 1];
    const width = edge - edges[column];
    let time = standing * width;
    const lastLaunched = Math.min(rank, l1);
    if (lastLaunched > l0) time += pile.sinceLaunch(l0, lastLaunched, edge);
    const lastStarted = Math.min(rank, s1);
    if (lastStarted > s0) time -= pile.sinceStart(s0, lastStarted, edge);
    const mean = time / width;
    return mean > 1e-9 ? mean : 0;
  }

  /** Mean number of queued ops in a column. */
  depth(column: number): number {
    const known = this.depths[column];
    return known >= 0 ? known : (this.depths[column] = this.level(this.launched[column + 1], column));
  }
}

function running(values: Float64Array): Float64Array {
  const sums = new Float64Array(values.length + 1);
  for (let i = 0; i < values.length; i++) sums[i + 1] = sums[i] + values[i];
  return sums;
}

function since(values: Float64Array, sums: Float64Array, from: number, to: number, edge: number): number {
  if (to - from > FEW) return (to - from) * edge - (sums[to] - sums[from]);
  let total = 0;
  for (let i = from; i < to; i++) total += edge - values[i];
  return total;
}
