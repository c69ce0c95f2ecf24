// What of the critical path is lit: everything else in the lanes pales, and a line on the axis says when.
import type { RowKind } from "../model/layout.ts";
import { ALL_OF_PATH } from "../model/state.ts";
import { below } from "../model/sorted.ts";
import type { Frame } from "./draw.ts";

const VEIL = 0.78; // how much of the ground lies over what is not lit
const LINE_PX = 3;
const HOST = new Set<RowKind>(["cell", "thread", "launches"]);
const LANES = new Set<RowKind>(["lane", "rank"]);

/** Stretches of pixels in which one stream, one rank of several, or the host (-1) limited the run. */
interface Stretch {
  x0: number;
  x1: number;
  stream: number;
}

export function paintCriticalPath(f: Frame): void {
  const { path } = f.model;
  if (!path || f.state.path === -1 || f.state.tab !== "timeline") return;
  const axis = f.layout.rows.find((row) => row.kind === "axis")!;
  const top = axis.y + 11;
  const lit = stretches(f);
  const { g } = f.text;
  const { height } = f.layout;
  g.beginPath();
  g.rect(0, top, f.scale.width, height - top);
  for (const { x0, x1, stream } of lit) {
    for (const row of f.layout.rows) {
      const mine = stream < 0 ? HOST.has(row.kind) : LANES.has(row.kind) && row.index === stream;
      if (mine) g.rect(x0, row.y, x1 - x0, row.h);
    }
  }
  g.globalAlpha = VEIL;
  g.fillStyle = f.palette.css("ground");
  g.fill("evenodd");
  g.globalAlpha = 1;
  g.fillStyle = f.palette.css("accent");
  for (const { x0, x1 } of lit) g.fillRect(x0, top - LINE_PX, x1 - x0, LINE_PX);
}

/** What is lit, in whole pixels of the screen; none covers another, so that no hole is filled again. */
function stretches(f: Frame): Stretch[] {
  const { start, end, share, stream } = f.model.path!;
  const found: Stretch[] = [];
  const pixel = 1 / f.dpr;
  let reached = 0;
  for (let i = Math.max(0, below(start, f.scale.from) - 1); i < start.length && start[i] < f.scale.to; i++) {
    if (f.state.path !== ALL_OF_PATH && share[i] !== f.state.path) continue;
    const x0 = Math.max(reached, Math.floor(f.scale.xIn(start[i]) * f.dpr) * pixel);
    const x1 = Math.min(f.scale.width, Math.ceil(f.scale.xIn(end[i]) * f.dpr) * pixel);
    if (x1 <= x0 || end[i] <= f.scale.from) continue;
    const last = found[found.length - 1];
    if (last && last.stream === stream[i] && last.x1 === x0) last.x1 = x1;
    else found.push({ x0, x1, stream: stream[i] });
    reached = x1;
  }
  return found;
}
