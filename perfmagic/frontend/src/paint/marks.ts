// Where a slice is drawn, the ring of the focus, and the selection.
import { firstLevel, LEVEL_PX, type Row } from "../model/layout.ts";
import type { Ref } from "../model/store.ts";
import { duration } from "../model/units.ts";
import type { Frame } from "./draw.ts";
import { sliceBox } from "./stream.ts";

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
    const thread = model.threads[ref.thread];
    const level = row ? ref.level - firstLevel(thread, row) : -1;
    if (!row || level < 0 || level >= row.sub) return null;
    const track = thread.levels[ref.level];
    return spans(track.start[ref.row], track.end[ref.row], row.y + level * LEVEL_PX, LEVEL_PX - 1);
  }
  if (ref.kind === "meeting" || ref.kind === "message") return null;
  const row = find(ref.kind === "line" ? "cell" : "launches", 0);
  const from = ref.kind === "line" ? model.cell?.spans : ref.kind === "launch" ? model.launches?.track : model.blocked;
  return row && from ? spans(from.start[ref.row], from.end[ref.row], row.y, row.h) : null;
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

/** The part of the axis that the selection's length takes, CSS pixels of the plot; null where none is in view. */
export function lengthPill(f: Frame): [number, number] | null {
  const { selection } = f.state;
  if (!selection || selection[1] < f.scale.from || selection[0] > f.scale.to) return null;
  const width = f.text.width(duration(selection[1] - selection[0]), { size: 10, bold: true }) + 10;
  const centre = (f.scale.xIn(selection[0]) + f.scale.xIn(selection[1])) / 2;
  const middle = Math.max(width / 2, Math.min(f.scale.width - width / 2, centre));
  return [middle - width / 2, middle + width / 2];
}

/** The edges of the selection and its length on the axis; its tint lies under the lanes. */
export function paintSelection(f: Frame): void {
  const { selection } = f.state;
  const axis = f.layout.rows.find((row) => row.kind === "axis");
  const pill = lengthPill(f);
  if (!selection || !axis || !pill) return;
  const { g } = f.text;
  const colour = f.palette.css("accent");
  const [x0, x1] = [f.scale.xIn(selection[0]), f.scale.xIn(selection[1])];
  g.fillStyle = colour;
  for (const x of [x0, x1]) g.fillRect(x - 0.5, axis.y + 11, 1, f.layout.height - axis.y - 11);
  g.fillRect(x0, axis.y + 11, x1 - x0, 2);
  const words = duration(selection[1] - selection[0]);
  g.beginPath();
  g.roundRect(pill[0], axis.y - 2, pill[1] - pill[0], 14, 7);
  g.fill();
  const middle = (pill[0] + pill[1]) / 2;
  f.text.write(words, middle, axis.y + 5.5, { size: 10, bold: true, align: "center", colour: f.palette.css("ground") });
}
