// Where Python was in a window: each path of calls once, with exact times. perfmagic.analysis.timeline.flame has the same.
import type { Columns } from "./decode.ts";
import type { Window } from "./scale.ts";
import type { FlameWire, LabelRow } from "./wire.ts";

export interface FlamePath {
  /** The same in every window. */
  id: number;
  name: string;
  /** A row of the header's kinds. */
  kind: number;
  calls: number;
  /** How long it ran, and how long it was the innermost; of a thread all the time, and that outside of all calls. */
  total: number;
  self: number;
  parent: FlamePath | null;
  /** What ran inside, in the order of the first start. */
  inside: FlamePath[];
}

export class Flame {
  private readonly calls: Columns[string][];

  constructor(
    readonly wire: FlameWire,
    private readonly columns: Columns,
    private readonly labels: LabelRow[],
  ) {
    this.calls = Object.values(columns).filter((table) => table["path"]);
  }

  /** The threads on which anything ran in a window, with what ran on them. */
  threads([from, to]: Window): FlamePath[] {
    const [start, end] = [Math.max(Math.round(from), this.wire.start), Math.min(Math.round(to), this.wire.end)];
    const { parent, label } = this.columns["paths"];
    const n = parent.length + 1; // paths are numbered from 1
    const [total, calls, first] = [new Float64Array(n), new Float64Array(n), new Float64Array(n).fill(Infinity)];
    for (const table of this.calls) {
      const { path, start: starts, end: ends, early } = table;
      for (let i = 0; i < path.length; i++) {
        const ran = Math.min(ends[i] - (early?.[i] ?? 0), end) - Math.max(starts[i], start);
        if (ran <= 0) continue;
        total[path[i]] += ran;
        calls[path[i]]++;
        first[path[i]] = Math.min(first[path[i]], starts[i]);
      }
    }
    const made: FlamePath[] = [];
    const threads: FlamePath[] = [];
    for (let id = 1; id < n; id++) {
      const above = made[parent[id - 1]] ?? null;
      const ns = above ? total[id] : end - start;
      if (ns <= 0 || (parent[id - 1] && !above)) continue;
      const [name, kind] = this.labels[label[id - 1]];
      made[id] = { id, name, kind, calls: calls[id] || 1, total: ns, self: ns, parent: above, inside: [] };
      (above?.inside ?? threads).push(made[id]);
      if (above) above.self -= ns;
    }
    for (const path of made) path?.inside.sort((a, b) => first[a.id] - first[b.id]);
    return threads.filter((thread) => thread.inside.length);
  }
}

/** The outermost path that varies: what is around it ran all the time, and called nothing else. */
export function innermostOfAll(path: FlamePath): FlamePath {
  const [only, another] = path.inside;
  return only && !another && only.total === path.total && only.inside.length ? innermostOfAll(only) : path;
}
