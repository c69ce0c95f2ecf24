// A row of a page of several ranks: Python, compute, communication as waiting and data moving, copies, idle.
import type { Row } from "../model/layout.ts";
import { bands, placeOf, twoWay } from "../model/rank_bands.ts";
import type { Spans } from "../model/spans.ts";
import { below } from "../model/sorted.ts";
import { duration } from "../model/units.ts";
import { box, type Frame, inGap, lost, skyline } from "./draw.ts";
import { NONE, type RowText } from "./gutters.ts";
import { isWhole } from "../model/state.ts";
import { say } from "../model/words.ts";

const IDLE_SHARE = 0.45; // of red: idle time is lost, but it is not this rank that makes others wait
const BLOCKED_SHARE = 0.28; // over Python's grey
const BESIDE_SHARE = 0.18; // waiting that costs nothing, as the rank computes meanwhile
const BOX_PX = 2; // a wait at least so wide is hatched
const LABEL_PX = 64;

export function paintRank(f: Frame, row: Row): void {
  const rank = f.model.ranks[row.index];
  let y = row.y;
  for (const [name, high] of bands(row)) {
    if (name === "host") {
      sky(f, rank.host, y, high, "host1");
      sky(f, rank.blocked, y, high, "wait", BLOCKED_SHARE);
    }
    if (name === "compute") {
      sky(f, rank.compute, y, high, "comp");
      for (const [i, x0, x1] of boxes(f, rank.boxes, BOX_PX))
        box(f, x0, y, x1 - 0.5, y + high, f.palette.pixel(roleOf(rank.labels[i])));
    } else if (name === "copy") sky(f, rank.copy, y, high, "htod");
    else if (name === "idle") sky(f, rank.idle, y, high, "wait", IDLE_SHARE);
    else if (name === "comm") {
      const [above, share] = commOf(f, row, false);
      sky(f, rank.waitBeside, above, share, "wait", BESIDE_SHARE);
      paintWaits(f, rank.wait, above, share);
      sky(f, rank.transfer, above, share, "comm");
      if (twoWay(rank)) {
        sky(f, rank.askedBeside, above + share, share, "wait", BESIDE_SHARE);
        paintWaits(f, rank.asked, above + share, share);
        sky(f, rank.got, above + share, share, "comm");
      }
    }
    y += high;
  }
  box(f, 0, row.y + row.h + 2, f.scale.width, row.y + row.h + 2.5, f.palette.pixel("rule"));
}

/** The colour of a micro-batch, as torch labels it: 4F2 goes forward. */
function roleOf(label: string): string {
  return /^\d*F/.test(label) ? "comp" : "matrix";
}

/** How long each wait is, which micro-batch a box is, and the line that others wait for, where they have room. */
export function writeRank(f: Frame, row: Row): void {
  const { wait, boxes: batches, labels } = f.model.ranks[row.index];
  const [y, h] = commOf(f, row, false);
  const [top, tall] = placeOf(row, "compute");
  const fits = (words: string, x0: number, x1: number): boolean => f.text.width(words, { size: 10 }) < x1 - x0;
  if (tall >= 10)
    for (const [i, x0, x1] of boxes(f, batches, 8)) {
      const colour = f.palette.css(`on_${roleOf(labels[i])}`);
      if (fits(labels[i], x0, x1))
        f.text.write(labels[i], (x0 + x1) / 2, top + tall / 2 + 0.5, { size: 10, align: "center", colour });
    }
  const { mark } = f.model.header;
  if (mark?.[0] === row.index && mark[1] < f.scale.to && mark[2] > f.scale.from) {
    const [x0, x1] = [f.scale.xIn(mark[1]), f.scale.xIn(mark[2])];
    f.text.g.strokeStyle = f.palette.css("ink");
    f.text.g.lineWidth = 1.5;
    f.text.g.strokeRect(x0, row.y - 0.5, Math.max(2, x1 - x0), top + tall - row.y + 1);
    if (tall >= 10 && fits(mark[3], x0, x1 - 12)) inGap(f, mark[3], x0, x1, { y: top, h: tall }, "ink");
  }
  if (h < 10) return;
  for (const [i, x0, x1] of boxes(f, wait, LABEL_PX)) {
    const words = say("waits {time}", { time: duration(wait.end[i] - wait.start[i]) });
    if (fits(words, x0, x1 - 12)) inGap(f, words, x0, x1, { y, h }, "wait");
  }
}

/** A rank that can be opened says so; for a part of the axis how long it waits and is busy there. */
export function rankText(f: Frame, row: Row): RowText {
  const { wire, waits: waited, idle } = f.model.ranks[row.index];
  const open = f.state.ranks.includes(row.index);
  const label = wire.part ? `${wire.label} ${open ? "▾" : "▸"}` : wire.label;
  if (isWhole(f.state)) return { ...NONE, label, number: wire.words[0] || wire.words[1], unit: "" };
  const [from, to] = f.state.view;
  const waits = waited.covered(from, to);
  const idles = say("idle {time}", { time: duration(idle.covered(from, to)) });
  return { ...NONE, label, number: waits ? say("waits {time}", { time: duration(waits) }) : idles };
}

/** Where a rank's collectives and sends, or its receives, are drawn. */
export function commOf(f: Frame, row: Row, receives: boolean): [number, number] {
  const [y, high] = placeOf(row, "comm");
  if (!twoWay(f.model.ranks[row.index])) return [y, high];
  return receives ? [y + high / 2, high / 2] : [y, high / 2];
}

function sky(f: Frame, spans: Spans, y: number, h: number, token: string, share = 1): void {
  if (spans.length) skyline(f, spans.shares(f.edges), y, h, f.palette.pixel(token, share), 1);
}

function paintWaits(f: Frame, spans: Spans, y: number, h: number): void {
  if (!spans.length) return;
  skyline(f, spans.shares(f.edges), y, h, f.palette.pixel("wait", IDLE_SHARE), 1);
  for (const [, x0, x1] of boxes(f, spans, BOX_PX)) {
    box(f, x0, y, x1, y + h, f.palette.pixel("ground"));
    lost(f, x0, x1, y, h);
  }
}

/** The intervals in view that are at least so wide: their rows, and their edges inside the plot. */
function boxes(f: Frame, spans: Spans, least: number): [number, number, number][] {
  const found: [number, number, number][] = [];
  const last = below(spans.start, f.scale.to);
  for (let i = 0; i < last; i++) {
    if (spans.end[i] <= f.scale.from || (spans.end[i] - spans.start[i]) * f.scale.pxPerNs < least) continue;
    found.push([i, f.scale.xIn(spans.start[i]), f.scale.xIn(spans.end[i])]);
  }
  return found;
}
