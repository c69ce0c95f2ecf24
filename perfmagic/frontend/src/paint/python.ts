// Python's lanes: cell lines, operators in flame order, launches and what blocked them.
import { firstLevel, LEVEL_PX, type Row } from "../model/layout.ts";
import { below } from "../model/sorted.ts";
import { type CellLines, shortName } from "../model/store.ts";
import { duration } from "../model/units.ts";
import { box, type Frame, lost, skyline, strength, inGap } from "./draw.ts";
import { detailOf } from "./lod.ts";
import { say } from "../model/words.ts";

const SLICE_PX = 2.5;
const NAME_FROM_PX = 30;
const LEAST_BLOCKED_PX = 1.2; // narrower calls become a tick of 1 px, never hidden

/** The grey of each cell line, neighbours differing; used wherever the line is met again. */
export function lineTones(cell: CellLines | null): Map<number, string> {
  const tones = new Map<number, string>();
  for (const line of cell?.line ?? []) if (!tones.has(line)) tones.set(line, tones.size % 2 ? "host1" : "host2");
  return tones;
}

export function paintCell(f: Frame, row: Row): void {
  const { cell } = f.model;
  if (!cell) return;
  const tones = lineTones(cell);
  const { start, end } = cell.spans;
  let drawn = -1;
  for (let i = below(end, f.scale.from); i < start.length && start[i] < f.scale.to; i++) {
    const x0 = f.scale.xIn(start[i]);
    const x1 = f.scale.xIn(end[i]);
    const pixel = Math.floor(x0 * f.dpr);
    // of several within a pixel the first stands for them
    if (x1 - x0 < 1 && pixel === drawn) continue;
    drawn = pixel;
    box(f, x0, row.y, Math.max(x0 + 0.5, x1 - 0.75), row.y + row.h, f.palette.pixel(tones.get(cell.line[i])!));
    if (cell.line[i] === f.state.line) box(f, x0, row.y + row.h - 2, x1 - 0.75, row.y + row.h, f.palette.pixel("ink"));
  }
}

export function writeCell(f: Frame, row: Row): void {
  const { cell } = f.model;
  if (!cell) return;
  const { start, end } = cell.spans;
  const middle = row.y + row.h / 2 + 0.5;
  let room = -Infinity;
  for (let i = below(end, f.scale.from); i < start.length && start[i] < f.scale.to; i++) {
    const x0 = f.scale.xIn(start[i]);
    const width = f.scale.xIn(end[i]) - x0;
    const digits = String(cell.line[i]);
    const own = f.text.width(digits, { bold: true });
    if (width < own + 3 || x0 < room) continue;
    const inset = width > own + 12 ? 5 : (width - own) / 2;
    f.text.write(digits, x0 + inset, middle, { bold: true, colour: f.palette.css("ink") });
    room = x0 + own;
    const words = width > 60 ? (cell.texts[digits] ?? "") : "";
    const code = f.text.fitted(words, width - own - 18, { size: 10, mono: true });
    if (code) f.text.write(code, x0 + own + 11, middle, { size: 10, mono: true, colour: f.palette.css("hostink") });
  }
}

export function paintThread(f: Frame, row: Row): void {
  const thread = f.model.threads[row.index];
  const outermost = firstLevel(thread, row);
  for (let level = 0; level < row.sub; level++) {
    const y = row.y + level * LEVEL_PX;
    const tone = (["host1", "host2", "host3"] as const)[Math.min(2, level)];
    const track = thread.levels[outermost + level];
    const detail = detailOf([track], f.scale, f.edges, SLICE_PX, f.hits);
    const byName = f.hits?.names ? f.hits : null;
    const pale = f.palette.pixel(tone, strength(f, 31, !byName));
    const full = f.palette.pixel(tone);
    if (detail.shares[0]) {
      skyline(f, detail.shares[0], y, LEVEL_PX - 1, pale);
      if (byName && detail.hit?.[0]) skyline(f, detail.hit[0], y, LEVEL_PX - 1, f.palette.pixel("accent"));
    }
    for (const { row: i } of detail.wide) {
      const x0 = f.scale.xIn(track.start[i]);
      const x1 = Math.max(x0 + 0.5, f.scale.xIn(track.end[i]) - 0.75);
      box(f, x0, y, x1, y + LEVEL_PX - 1, byName?.hasName(track.name[i]) ? full : pale);
      if (byName?.hasName(track.name[i]))
        box(f, x0, y + LEVEL_PX - 2.5, x1, y + LEVEL_PX - 1, f.palette.pixel("accent"));
    }
  }
}

export function writeThread(f: Frame, row: Row): void {
  const thread = f.model.threads[row.index];
  const outermost = firstLevel(thread, row);
  for (let level = 0; level < row.sub; level++) {
    const track = thread.levels[outermost + level];
    const [first, last] = track.range(f.scale.from, f.scale.to);
    track.atLeast(NAME_FROM_PX / f.scale.pxPerNs, first, last, (i) => {
      const x0 = f.scale.xIn(track.start[i]);
      const room = f.scale.xIn(track.end[i]) - x0 - 7;
      const words = f.text.fitted(shortName(f.model, track.name[i]), room, { size: 10 });
      if (words)
        f.text.write(words, x0 + 3.5, row.y + level * LEVEL_PX + 5.5, { size: 10, colour: f.palette.css("hostink") });
    });
  }
}

export function paintLaunches(f: Frame, row: Row): void {
  const { launches, blocked } = f.model;
  if (launches) {
    const colour = f.palette.pixel("launch", strength(f, 31, !f.hits));
    skyline(f, launches.busy.shares(f.edges), row.y, row.h, colour, 1);
  }
  if (!blocked) return;
  let tick = -1;
  for (let i = blockedFrom(f); i < blocked.start.length && blocked.start[i] < f.scale.to; i++) {
    const x0 = f.scale.xIn(blocked.start[i]);
    const x1 = f.scale.xIn(blocked.end[i]);
    const colour = blocked.besideWork[i] ? "ink3" : "wait";
    if (x1 - x0 >= LEAST_BLOCKED_PX) lost(f, x0, x1, row.y, row.h, colour);
    else if (x1 > 0 && x0 < f.scale.width && Math.floor(x0) !== tick) {
      tick = Math.floor(x0);
      box(f, tick, row.y, tick + 1, row.y + row.h, f.palette.pixel(colour));
    }
  }
}

export function writeLaunches(f: Frame, row: Row): void {
  const { blocked, header } = f.model;
  for (
    let i = blocked ? blockedFrom(f) : 0;
    blocked && i < blocked.start.length && blocked.start[i] < f.scale.to;
    i++
  ) {
    const x0 = f.scale.xIn(blocked.start[i]);
    const x1 = f.scale.xIn(blocked.end[i]);
    const ink = blocked.besideWork[i] ? "ink2" : "wait";
    if (x1 - x0 > 70) inGap(f, blockedWords(f, i, x1 - x0 - 24), x0, x1, row, ink);
  }
  if (header.returned === null) return;
  const x = f.scale.x(header.returned);
  if (x < 0 || f.scale.width - x < 100) return;
  const { g } = f.text;
  g.save();
  g.setLineDash([1, 4]);
  g.strokeStyle = f.palette.css("ink3");
  g.lineWidth = 1;
  g.beginPath();
  g.moveTo(x + 4, row.y + row.h / 2);
  g.lineTo(f.scale.width, row.y + row.h / 2);
  g.stroke();
  g.restore();
  inGap(f, say("Python has returned"), x, f.scale.width, row, "ink2");
}

function blockedFrom(f: Frame): number {
  const { blocked } = f.model;
  // calls of several threads may nest: the union says how far back one can begin that still holds
  const held = blocked!.union.at(f.scale.from);
  return below(blocked!.start, held < 0 ? f.scale.from : blocked!.union.start[held]);
}

function blockedWords(f: Frame, i: number, room: number): string {
  const blocked = f.model.blocked!;
  const short = say("blocked {time}", { time: duration(blocked.end[i] - blocked.start[i]) });
  const all = [`${short} · ${blocked.words[i]}`, short];
  return all.find((words) => f.text.width(words, { size: 10 }) <= room) ?? f.text.fitted(short, room, { size: 10 });
}
