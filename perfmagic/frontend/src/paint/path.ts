// The path of an op: its launch call, the drop to the pile, the way through it, its start.
import { pileView } from "../model/crop.ts";
import type { Row } from "../model/layout.ts";
import { PileColumns } from "../model/pile.ts";
import type { Ref } from "../model/store.ts";
import type { Frame } from "./draw.ts";
import { boxOf } from "./marks.ts";

/** The op a slice is about: itself, or the first one its call queued. */
export function opOf(f: Pick<Frame, "model">, ref: Ref): { stream: number; row: number } | null {
  if (ref.kind === "op") return ref;
  const { launches } = f.model;
  if (ref.kind !== "launch" || !launches || launches.opStream[ref.row] < 0) return null;
  return { stream: launches.opStream[ref.row], row: launches.opRow[ref.row] };
}

/** The outline of a slice, and the path of the op it is about. */
export function paintPathOf(f: Frame, ref: Ref): void {
  const { g } = f.text;
  g.strokeStyle = f.palette.css("ink");
  g.lineJoin = "round";
  const at = boxOf(f, ref);
  const op = opOf(f, ref);
  if (op) paintOpPath(f, op);
  for (const one of [at, op && boxOf(f, { kind: "op", ...op })]) {
    if (!one) continue;
    g.lineWidth = 1.5;
    g.strokeRect(one.x - 0.5, one.y - 0.5, one.w + 1, one.h + 1);
  }
}

function paintOpPath(f: Frame, op: { stream: number; row: number }): void {
  const { model, layout } = f;
  const stream = model.streams[op.stream];
  const find = (kind: Row["kind"], index: number): Row | undefined =>
    layout.rows.find((row) => row.kind === kind && row.index === index);
  const pile = find("pile", op.stream);
  const launches = find("launches", 0);
  const axis = find("axis", 0);
  const x0 = f.scale.x(stream.launch[op.row]);
  const x1 = f.scale.x(stream.start[op.row]);
  const known = !stream.orphan[op.row] && stream.launchRow[op.row] >= 0;
  const landing = pile ? paintFall(f, op, pile) : null;
  const seen = (x: number): boolean => x >= 0 && x <= f.scale.width;
  const { g } = f.text;
  const ink = f.palette.css("ink");
  if (known && launches && seen(x0)) {
    const bottom = landing ?? find("lane", op.stream)?.y ?? launches.y;
    g.lineWidth = 1;
    g.setLineDash([2, 2]);
    g.beginPath();
    g.moveTo(x0, launches.y + launches.h);
    g.lineTo(x0, bottom);
    g.stroke();
    g.setLineDash([]);
    g.fillStyle = ink;
    g.fillRect(x0 - 0.75, launches.y - 2, 1.5, launches.h + 3);
    if (landing !== null) dot(f, x0, landing);
  }
  const lane = find("lane", op.stream);
  if (lane && pile && seen(x1)) dot(f, x1, lane.y - 1);
  for (const x of known ? [x0, x1] : [x1]) {
    if (!axis || !seen(x)) continue;
    g.fillStyle = ink;
    g.beginPath();
    g.moveTo(x - 3, axis.y + 10);
    g.lineTo(x + 3, axis.y + 10);
    g.lineTo(x, axis.y + 14);
    g.fill();
  }
}

/** The op's way down through the pile. Returns the height at which it lands. */
function paintFall(f: Frame, op: { stream: number; row: number }, pile: Row): number | null {
  const stream = f.model.streams[op.stream];
  const view = pileView(stream, f.scale.from, f.scale.to, pile.h);
  const columns = PileColumns.of(stream.pile, f.edges);
  const n = f.edges.length - 1;
  const floor = pile.y + pile.h;
  const [launch, start] = [stream.pile.launch[op.row], stream.start[op.row]];
  const thick = view.rowPx >= 4;
  const lift = thick ? view.rowPx : 0;
  const { g } = f.text;
  let landing: number | null = null;
  const strokes = thick ? [0, lift] : [0];
  for (const up of strokes) {
    g.lineWidth = thick ? 1.1 : 1.6;
    g.beginPath();
    let open = false;
    let last = 0;
    for (let i = 0; i < n; i++) {
      if (f.edges[i + 1] <= launch || f.edges[i] >= start) continue;
      const y = floor - columns.level(op.row, i) * view.rowPx - up;
      const x = Math.max((i * f.columnPx) / f.dpr, f.scale.x(launch));
      landing ??= launch >= f.scale.from ? y + (thick ? -lift / 2 : 0) : null;
      if (y < pile.y - 1) {
        open = false;
        continue;
      }
      if (!open) g.moveTo(x, y);
      else if (Math.abs(y - last) > 0.01) {
        g.lineTo(x, last);
        g.lineTo(x, y);
      }
      open = true;
      last = y;
    }
    if (open) g.lineTo(Math.min(f.scale.width, f.scale.x(start)), last);
    if (open && start <= f.scale.to) g.lineTo(f.scale.x(start), floor - up);
    g.stroke();
  }
  return landing === null ? null : Math.max(pile.y, landing);
}

function dot(f: Frame, x: number, y: number): void {
  const { g } = f.text;
  g.beginPath();
  g.arc(x, y, 3.2, 0, 7);
  g.fillStyle = f.palette.css("ground");
  g.fill();
  g.lineWidth = 1.4;
  g.stroke();
}
