// Stepping with the keyboard: from a launch to its op and on, along a lane, from hit to hit.
import { KINDS } from "./detail_rows.ts";
import type { Hits } from "../model/hits.ts";
import type { Window } from "../model/scale.ts";
import { upTo } from "../model/sorted.ts";
import type { Model, Ref } from "../model/store.ts";

/** Forwards: launch → its op → the next launch → … Backwards the same way. From nothing: the first launch in view. */
export function walk(model: Model, from: Ref | null, forwards: boolean, view: Window): Ref | null {
  const { launches } = model;
  if (!launches || !launches.track.length) return from;
  const linked = (call: number): boolean => launches.ops[call] > 0;
  const next = (call: number, by: 1 | -1): number => {
    while (call >= 0 && call < launches.track.length && !linked(call)) call += by;
    return call;
  };
  const launch = (call: number): Ref | null =>
    call >= 0 && call < launches.track.length ? { kind: "launch", row: call } : null;
  const op = (call: number): Ref => ({ kind: "op", stream: launches.opStream[call], row: launches.opRow[call] });
  if (from?.kind === "launch" && linked(from.row)) {
    if (forwards) return op(from.row);
    const before = next(from.row - 1, -1);
    return before >= 0 ? op(before) : from;
  }
  if (from?.kind === "op") {
    const call = model.streams[from.stream].launchRow[from.row];
    if (call >= 0) return (forwards ? launch(next(call + 1, 1)) : launch(call)) ?? from;
  }
  return launch(next(upTo(launches.track.start, view[0]), 1)) ?? from;
}

/** The neighbour of a slice in its lane. */
export function beside(model: Model, from: Ref | null, by: 1 | -1, view: Window): Ref | null {
  if (!from) {
    if (!model.streams.length) return null;
    const stream = model.streams[0];
    const row = Math.min(stream.start.length - 1, upTo(stream.start, view[0]));
    return { kind: "op", stream: 0, row };
  }
  const length =
    from.kind === "op" ? model.streams[from.stream].start.length
    : from.kind === "host" ? model.threads[from.thread].levels[from.level].length
    : from.kind === "launch" ? model.launches!.track.length
    : from.kind === "blocked" ? model.blocked!.start.length
    : KINDS.has(from.kind) ? KINDS.get(from.kind)!.count(model)
    : model.cell!.spans.length; // prettier-ignore
  const row = from.row + by;
  return row >= 0 && row < length ? { ...from, row } : from;
}

/** The next or previous hit among the device's ops by start, around from the other end. */
export function nextHit(model: Model, hits: Hits, from: Ref | null, by: 1 | -1, view: Window): Ref | null {
  const origin = from ? spanOf(model, from)[0] : view[0] - 1;
  let best: Ref | null = null;
  let bestAt = by * Infinity;
  let round: Ref | null = null;
  let roundAt = by * Infinity;
  model.streams.forEach((stream, s) => {
    for (let i = 0; i < stream.start.length; i++) {
      if (!hits.has(stream, i)) continue;
      const at = stream.start[i];
      if ((by > 0 ? at > origin : at < origin) && (by > 0 ? at < bestAt : at > bestAt)) {
        bestAt = at;
        best = { kind: "op", stream: s, row: i };
      }
      if (by > 0 ? at < roundAt : at > roundAt) {
        roundAt = at;
        round = { kind: "op", stream: s, row: i };
      }
    }
  });
  return best ?? round;
}

/** When a slice ran; of what several ranks did, from the first of them to the last. */
export function spanOf(model: Model, ref: Ref): Window {
  const kind = KINDS.get(ref.kind);
  if (kind) return kind.span(model, ref.row);
  const from =
    ref.kind === "op" ? model.streams[ref.stream]
    : ref.kind === "host" ? model.threads[ref.thread].levels[ref.level]
    : ref.kind === "launch" ? model.launches!.track
    : ref.kind === "blocked" ? model.blocked!
    : model.cell!.spans; // prettier-ignore
  return [from.start[ref.row], from.end[ref.row]];
}

/** A window that shows a slice: the one in view where it does, else of the same length around the slice. */
export function showing(view: Window, span: Window): Window {
  if (span[0] >= view[0] && span[1] <= view[1]) return view;
  const length = Math.max(view[1] - view[0], (span[1] - span[0]) * 1.2);
  const middle = (span[0] + span[1]) / 2;
  return [middle - length / 2, middle + length / 2];
}

/** A window in which a slice is large: a double click's. */
export function closeUp(span: Window): Window {
  const margin = Math.max(5, (span[1] - span[0]) * 0.75);
  return [span[0] - margin, span[1] + margin];
}
