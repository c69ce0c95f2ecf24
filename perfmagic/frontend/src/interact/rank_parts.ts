// What a page of several ranks has beside its picture: what lies under the pointer, and waits in the selection.
import { el } from "./dom.ts";
import { row } from "./foot.ts";
import { REACH_PX } from "./pick.ts";
import type { Row } from "../model/layout.ts";
import { takenAt, takenBy } from "../model/meets.ts";
import { placeOf, twoWay } from "../model/rank_bands.ts";
import type { Scale, Window } from "../model/scale.ts";
import type { Model, Ref } from "../model/store.ts";
import { duration } from "../model/units.ts";
import { say } from "../model/words.ts";

const MOST_RANKS = 8;

/** The collective or message of a rank whose part lies under the pointer. */
export function pickMeeting(model: Model, row: Row, scale: Scale, x: number, y: number): Ref | null {
  const [top, high] = placeOf(row, "comm");
  if (y < top || y >= top + high) return null;
  const rank = model.ranks[row.index];
  const lower = twoWay(rank) && y >= top + high / 2;
  const taken = takenBy(model.joined!.meets, model.joined!.messages, row.index);
  const found = takenAt(taken, scale.ns(x), REACH_PX / scale.pxPerNs, lower);
  if (found === null) return null;
  return found < 0 ? { kind: "message", row: -1 - found } : { kind: "meeting", row: found };
}

/** How long each rank waited for others in the selection, the longest first. */
export function waitsOf(model: Model, [from, to]: Window): HTMLElement {
  const waits = model.ranks.map((rank) => ({ rank, ns: rank.waits.covered(from, to) }));
  const shown = waits.sort((a, b) => b.ns - a.ns).slice(0, MOST_RANKS);
  const rows = shown.flatMap(({ rank, ns }) => {
    const computed = say("computes {time}", { time: duration(rank.compute.covered(from, to)) });
    return row(rank.wire.label, "wait", ns / (to - from), say("waits {time}", { time: duration(ns) }), computed);
  });
  return el("div", "pm-rows", el("h2", "", say("by rank")), ...rows);
}
