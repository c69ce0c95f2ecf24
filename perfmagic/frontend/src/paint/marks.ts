// What a person points at: the thread of an op, the ring of the focus, the selection, the two flags.
import type { Frame } from "./draw.ts";
import type { Row } from "../model/layout.ts";
import { PileColumns } from "../model/pile.ts";
import { pileView } from "./pile.ts";
import { sliceBox } from "./stream.ts";
import { LEVEL_PX } from "../model/layout.ts";
import type { Ref } from "../model/store.ts";
import { duration } from "../model/units.ts";

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Where a slice is drawn, null where it is out of view or its lane is folded. */
export function boxOf(f: Frame, ref: Ref): Box | null {
  const { model, layout } = f;
  const find = (kind: Row["kind"], index: number): Row | undefined =>
    layout.rows.find((row) => row.kind === kind && row.index === index);
  const spans = (start: number, end: number, y: number, h: number): Box | null => {
    if (end < f.scale.from || start > f.scale.to) return null;
    const x = f.scale.xIn(start);
    return { x, y, w: Math.max(1.5, f.scale.xIn(end) - x), h };
  };
  if (ref.kind === "op") {
    const stream = model.streams[ref.stream];
    const row = find("lane", ref.stream);
    if (!row) return null;
    const track = stream.tracks[stream.subLane[ref.row]] ?? stream.tracks[0];
    const at = track.row ? track.row.indexOf(ref.row) : ref.row;
    const [y, h] = sliceBox(row, track, at);
    return spans(stream.start[ref.row], stream.end[ref.row], y, h);
  }
  if (ref.kind === "host") {
    const row = find("thread", ref.thread);
    if (!row || ref.level >= row.sub) return null;
    const track = model.threads[ref.thread].levels[ref.level];
    return spans(track.start[ref.row], track.end[ref.row], row.y + ref.level * LEVEL_PX, LEVEL_PX - 1);
  }
  const row = find(ref.kind === "line" ? "cell" : "launches", 0);
  const from = ref.kind === "line" ? model.cell?.spans : ref.kind === "launch" ? model.launches?.track : model.blocked;
  return row && from ? spans(from.start[ref.row], from.end[ref.row], row.y, row.h) : null;
}

/** The op a slice is about: itself, or the first one its call queued. */
export function opOf(f: Pick<Frame, "model">, ref: Ref): { stream: number; row: number } | null {
  if (ref.kind === "op") return ref;
  const { launches } = f.model;
  if (ref.kind !== "launch" || !launches || launches.opStream[ref.row] < 0) return null;
  return { stream: launches.opStream[ref.row], row: launches.opRow[ref.row] };
}

/** Outline, and for an op its thread: launch call, drop to the pile, path through it, start. */
export function paintThreadOf(f: Frame, ref: Ref): void {
  const { g } = f.text;
  g.strokeStyle = f.palette.css("ink");
  g.lineJoin = "round";
  const at = boxOf(f, ref);
  const op = opOf(f, ref);
  if (op) paintOpThread(f, op);
  for (const one of [at, op && boxOf(f, { kind: "op", ...op })]) {
    if (!one) continue;
    g.lineWidth = 1.5;
    g.strokeRect(one.x - 0.5, one.y - 0.5, one.w + 1, one.h + 1);
  }
}

function paintOpThread(f: Frame, op: { stream: number; row: number }): void {
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
  const landing = pile ? paintPath(f, op, pile) : null;
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

/** The op's way through the pile; gives the height at which it lands. */
function paintPath(f: Frame, op: { stream: number; row: number }, pile: Row): number | null {
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
      const x = Math.max((i * f.step) / f.dpr, f.scale.x(launch));
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

/** 2 px of accent outside a gap of ground. */
export function paintFocus(f: Frame, ref: Ref): void {
  const at = boxOf(f, ref);
  if (!at) return;
  const { g } = f.text;
  g.lineWidth = 2;
  g.strokeStyle = f.palette.css("ground");
  g.strokeRect(at.x - 1, at.y - 1, at.w + 2, at.h + 2);
  g.strokeStyle = f.palette.css("accent");
  g.strokeRect(at.x - 3, at.y - 3, at.w + 6, at.h + 6);
}

/** The edges of the selection and its length on the axis; its tint lies under the lanes. */
export function paintSelection(f: Frame): void {
  const { selection } = f.state;
  const axis = f.layout.rows.find((row) => row.kind === "axis");
  if (!selection || !axis || selection[1] < f.scale.from || selection[0] > f.scale.to) return;
  const { g } = f.text;
  const colour = f.palette.css("accent");
  const [x0, x1] = [f.scale.xIn(selection[0]), f.scale.xIn(selection[1])];
  g.fillStyle = colour;
  for (const x of [x0, x1]) g.fillRect(x - 0.5, axis.y + 11, 1, f.layout.height - axis.y - 11);
  g.fillRect(x0, axis.y + 11, x1 - x0, 2);
  const words = duration(selection[1] - selection[0]);
  const width = f.text.width(words, { size: 10, bold: true }) + 10;
  const middle = Math.max(width / 2, Math.min(f.scale.width - width / 2, (x0 + x1) / 2));
  g.beginPath();
  g.roundRect(middle - width / 2, axis.y - 2, width, 14, 7);
  g.fill();
  f.text.write(words, middle, axis.y + 5.5, { size: 10, bold: true, align: "center", colour: f.palette.css("ground") });
}

/** Lines through all lanes, each with its words on the side that has room. */
export function paintFlags(f: Frame, row: Row): void {
  const { flags } = f.model.header;
  const { g } = f.text;
  flags.forEach((flag, i) => {
    const x = f.scale.x(flag.at);
    if (x < 0 || x > f.scale.width) return;
    g.fillStyle = f.palette.css("ink");
    g.fillRect(x, row.y, 1, f.layout.height - row.y);
    const width = f.text.width(flag.text, { bold: true }) + 8;
    const left = x > f.scale.width - width || (i === flags.length - 1 && x > f.scale.width / 2);
    const [at, align] = left ? ([x - 6, "right"] as const) : ([x + 7, "left"] as const);
    f.text.write(flag.text, at, row.y + 6, { bold: true, align, colour: f.palette.css("ink") });
    f.text.write(duration(flag.at), at, row.y + 19, { size: 10, align, colour: f.palette.css("ink2") });
  });
}
