// What a search or a cell line marks: which ops, how many, how long.
import { tellingRow } from "./telling.ts";
import type { State } from "./state.ts";
import { fullName, type Model, shortName, type Stream } from "./store.ts";
import type { Track } from "./track.ts";

export class Hits {
  readonly count: number;
  readonly ns: number;
  private readonly sums = new Map<Track, (Float64Array | undefined)[]>();

  constructor(
    readonly model: Model,
    /** Whether each name is a hit; null where names do not decide. */
    readonly names: Uint8Array | null,
    readonly line: number,
    /** Whether each chain of lines is a hit; null where chains do not decide. */
    private readonly lit: Uint8Array | null = null,
  ) {
    let count = 0;
    let ns = 0;
    for (const stream of model.streams) {
      for (let i = 0; i < stream.start.length; i++) {
        if (!this.has(stream, i)) continue;
        count++;
        ns += stream.end[i] - stream.start[i];
      }
    }
    for (const thread of names ? model.threads : []) {
      for (const level of thread.levels) {
        for (let i = 0; i < level.length; i++) if (names![level.name[i]]) count++;
      }
    }
    this.count = count;
    this.ns = ns;
  }

  has(stream: Stream, row: number): boolean {
    return this.names
      ? this.names[stream.name[row]] === 1
      : this.lit
        ? this.lit[stream.chain[row]] === 1
        : stream.line[row] === this.line;
  }

  hasName(name: number): boolean {
    return this.names !== null && this.names[name] === 1;
  }

  /** Prefix sums of a track that count only hits. */
  sumsOf(track: Track, counts: (i: number) => boolean): (Float64Array | undefined)[] {
    let found = this.sums.get(track);
    if (!found) this.sums.set(track, (found = track.prefixSums(counts)));
    return found;
  }
}

/** The hits of a state, null where nothing is marked. */
export function hitsOf(model: Model, state: State): Hits | null {
  const told = state.tab === "lines" ? tellingRow(model, state) : -1;
  if (told >= 0) return new Hits(model, null, -1, model.lines!.holding(told));
  const query = state.query.trim().toLowerCase();
  if (query) {
    const names = Uint8Array.from(model.names, (_, i) =>
      `${shortName(model, i)} ${fullName(model, i)}`.toLowerCase().includes(query) ? 1 : 0,
    );
    return new Hits(model, names, 0);
  }
  return state.line ? new Hits(model, null, state.line) : null;
}
