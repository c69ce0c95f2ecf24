// What joins the rows of several ranks: a line through each collective, a dot on the rank that came last, an arrow for
// each message; and all ranks of the one that is pointed at.
import type { Row } from "../model/layout.ts";
import { below } from "../model/sorted.ts";
import type { Ref } from "../model/store.ts";
import type { Frame } from "./draw.ts";
import { commOf } from "./rank.ts";

const APART_PX = 5; // lines that stand closer are one: that of the longest wait
const MANY_ARROWS = 400;
const LONG_PX = 6; // of many arrows those that go so far along
const TIP_PX = 5;

export function paintMeets(f: Frame): void {
  const rows = f.layout.rows.filter((row) => row.kind === "rank");
  if (rows.length < 2) return;
  inPlot(f, () => {
    const { g } = f.text;
    g.lineWidth = 1;
    const shown = inView(f);
    for (const i of shown) line(f, rows, i);
    for (const i of shown) dot(f, rows, i);
    arrows(f, rows);
  });
}

/** Outlines of a collective or a message on all its ranks. */
export function paintMeeting(f: Frame, ref: Ref): void {
  const rows = f.layout.rows.filter((row) => row.kind === "rank");
  const { meets, messages } = f.model.joined!;
  const i = ref.row;
  inPlot(f, () => {
    const { g } = f.text;
    g.strokeStyle = f.palette.css("ink");
    g.lineWidth = 1.5;
    if (ref.kind === "message") {
      outline(f, rows[messages.source[i]], false, messages.sent[i], messages.sentEnd[i]);
      outline(f, rows[messages.target[i]], true, messages.asked[i], messages.arrived[i]);
      arrow(f, rows, i);
      return;
    }
    for (let p = meets.first[i]; p < meets.first[i + 1]; p++)
      outline(f, rows[meets.row[p]], false, meets.start[p], meets.end[p]);
    line(f, rows, i, "ink");
    dot(f, rows, i);
  });
}

function inPlot(f: Frame, paint: () => void): void {
  const { g } = f.text;
  g.save();
  g.beginPath();
  g.rect(-4, 0, f.scale.width + 8, f.layout.height);
  g.clip();
  paint();
  g.restore();
}

/** Of the collectives in view, at most one per stretch of pixels: that of the longest wait. */
function inView(f: Frame): number[] {
  const { met, waited } = f.model.joined!.meets;
  const most = new Map<number, number>();
  const last = below(met, f.scale.to);
  for (let i = below(met, f.scale.from); i < last; i++) {
    const column = Math.floor(f.scale.x(met[i]) / APART_PX);
    const other = most.get(column);
    if (other === undefined || waited[i] > waited[other]) most.set(column, i);
  }
  return [...most.values()];
}

function line(f: Frame, rows: Row[], i: number, token = "wait"): void {
  const { meets } = f.model.joined!;
  let [top, bottom] = [Infinity, -Infinity];
  for (let p = meets.first[i]; p < meets.first[i + 1]; p++) {
    const [y, h] = commOf(f, rows[meets.row[p]], false);
    top = Math.min(top, y + h / 2);
    bottom = Math.max(bottom, y + h / 2);
  }
  const { g } = f.text;
  const x = f.scale.x(meets.met[i]);
  g.strokeStyle = f.palette.css(token);
  g.setLineDash([2, 2]);
  g.beginPath();
  g.moveTo(x, top);
  g.lineTo(x, bottom);
  g.stroke();
  g.setLineDash([]);
}

function dot(f: Frame, rows: Row[], i: number): void {
  const { meets } = f.model.joined!;
  if (meets.last[i] < 0) return;
  const [y, h] = commOf(f, rows[meets.last[i]], false);
  const { g } = f.text;
  const x = f.scale.x(meets.met[i]);
  for (const [token, r] of [
    ["ground", 1],
    ["wait", 0],
  ] as const) {
    g.fillStyle = f.palette.css(token);
    g.beginPath();
    g.arc(x, y + h / 2, (rows[0].h > 30 ? 3 : 2) + r, 0, 7);
    g.fill();
  }
}

function arrows(f: Frame, rows: Row[]): void {
  const { met, arrived, longest } = f.model.joined!.messages;
  const first = below(met, f.scale.from - longest);
  const last = below(met, f.scale.to);
  const few = last - first <= MANY_ARROWS && !f.model.header.staged; // boxes of a schedule say who passes on
  const long = few ? 0 : LONG_PX / f.scale.pxPerNs;
  f.text.g.lineWidth = 0.8;
  f.text.g.strokeStyle = f.palette.css("ink2");
  for (let i = first; i < last; i++) if (arrived[i] >= f.scale.from && arrived[i] - met[i] >= long) arrow(f, rows, i);
}

function arrow(f: Frame, rows: Row[], i: number): void {
  const { met, source, target, arrived } = f.model.joined!.messages;
  const [y0, h0] = commOf(f, rows[source[i]], false);
  const [y1, h1] = commOf(f, rows[target[i]], true);
  const [ax, ay, bx, by] = [f.scale.x(met[i]), y0 + h0 / 2, f.scale.x(arrived[i]), y1 + h1 / 2];
  const { g } = f.text;
  g.beginPath();
  g.moveTo(ax, ay);
  g.lineTo(bx, by);
  g.stroke();
  const length = Math.hypot(bx - ax, by - ay) || 1;
  const [dx, dy] = [((bx - ax) / length) * TIP_PX, ((by - ay) / length) * TIP_PX];
  g.fillStyle = f.palette.css("ink");
  g.beginPath();
  g.moveTo(bx, by);
  g.lineTo(bx - dx - dy * 0.4, by - dy + dx * 0.4);
  g.lineTo(bx - dx + dy * 0.4, by - dy - dx * 0.4);
  g.fill();
}

function outline(f: Frame, row: Row | undefined, lower: boolean, start: number, end: number): void {
  if (!row || end < f.scale.from || start > f.scale.to) return;
  const [y, h] = commOf(f, row, lower);
  const x = f.scale.x(start);
  f.text.g.strokeRect(x - 0.5, y - 0.5, Math.max(1.5, f.scale.x(end) - x) + 1, h + 1);
}
