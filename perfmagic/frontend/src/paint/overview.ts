// The whole timeline in one lane, with the window in view as a frame around its part.
import type { Row } from "../model/layout.ts";
import { bar, box, type Frame } from "./draw.ts";

/** How much of the whole timeline each class of work took, and above it where Python was blocked at a cost. */
export function paintOverview(f: Frame, row: Row): void {
  const n = f.edges.length - 1;
  const { whole, view } = f.state;
  const all = overviewShares(f, n);
  const top = row.y + 4;
  const h = row.h - 4;
  const scale = f.scale.width / (whole[1] - whole[0]);
  const [x0, x1] = [view[0] * scale, view[1] * scale];
  box(f, 0, top, f.scale.width, top + h, f.palette.pixel("soft"));
  const work = all.work.map(
    ([token, shares]) => [shares, f.palette.pixel(token), f.palette.pixel(token, 0.38)] as const,
  );
  for (let i = 0; i < n; i++) {
    const at = (i * f.columnPx) / f.dpr;
    const outside = at + f.columnPx / f.dpr < x0 || at > x1;
    let floor = top + h;
    for (const [shares, full, pale] of work) {
      const high = Math.min(floor - top, shares[i] * h);
      if (high <= 0) continue;
      bar(f, i, floor - high, floor, outside ? pale : full);
      floor -= high;
    }
    if (all.blocked && all.blocked[i] > 0.3) bar(f, i, row.y, row.y + 2, f.palette.pixel("wait"));
  }
  const ink = f.palette.pixel("ink2");
  const right = Math.max(x0 + 2, x1);
  box(f, x0, top - 1, right, top, ink);
  box(f, x0, top + h - 1, right, top + h, ink);
  for (const x of [x0, right]) {
    box(f, x - 0.5, top - 1, x + 0.5, top + h, ink);
    box(f, x - 2, top + 6, x + 2, top + 16, ink);
  }
}

interface OverviewShares {
  work: [string, Float64Array][];
  blocked: Float64Array | null;
}

const overviews = new WeakMap<object, Map<number, OverviewShares>>();

/** The overview never changes while the width does not. */
function overviewShares(f: Frame, n: number): OverviewShares {
  let known = overviews.get(f.model);
  if (!known) overviews.set(f.model, (known = new Map<number, OverviewShares>()));
  let found = known.get(n);
  if (!found) {
    const edges = new Float64Array(n + 1);
    for (let i = 0; i <= n; i++) edges[i] = (i / n) * f.model.span;
    const groups = f.model.groups;
    const mean = (pick: (g: (typeof groups)[number]) => Float64Array): Float64Array => {
      const sum = new Float64Array(n);
      for (const group of groups) pick(group).forEach((v, i) => (sum[i] += v / groups.length));
      return sum;
    };
    const work: [string, Float64Array][] = groups.length
      ? [
          ["comp", mean((g) => g.compute.shares(edges))],
          ["comm", mean((g) => g.comm.shares(edges))],
          ["dtod", mean((g) => g.copy.shares(edges))],
        ]
      : (f.model.threads[0]?.levels.slice(0, 1).map((t) => {
          const out = [new Float64Array(n)];
          t.addShares(edges, out);
          return ["host1", out[0]];
        }) ?? []);
    found = { work, blocked: f.model.blocked ? f.model.blocked.lost.shares(edges) : null };
    known.clear();
    known.set(n, found);
  }
  return found;
}
