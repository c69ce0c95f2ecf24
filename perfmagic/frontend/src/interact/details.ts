// Everything known of one slice, as rows of words: what the hover card shows. No DOM here.
import type { Picked } from "./pick.ts";
import { at, type DetailRow, type Details, KINDS, row } from "./detail_rows.ts";
import { CLASS_TOKENS } from "../model/classes.ts";
import type { Window } from "../model/scale.ts";
import { freeAt, fullName, lineAt, type Model, type Ref, shortName } from "../model/store.ts";
import { likeIt } from "../model/totals.ts";
import { bandwidth, count, duration, plural, size } from "../model/units.ts";
import { say } from "../model/words.ts";

const GRAPH = /GraphLaunch/;

export function detailsOf(model: Model, ref: Ref, window: Window, picked?: Picked): Details {
  const details =
    ref.kind === "op" ? opDetails(model, ref.stream, ref.row, window)
    : ref.kind === "host" ? hostDetails(model, ref.thread, ref.level, ref.row)
    : ref.kind === "launch" ? launchDetails(model, ref.row)
    : ref.kind === "blocked" ? blockedDetails(model, ref.row)
    : ref.kind === "line" ? lineDetails(model, ref.row)
    : KINDS.get(ref.kind)!.details(model, ref.row); // prettier-ignore
  if (picked && picked.folded > 1) {
    details.foot = say("{slices} in this pixel column; zoom in to see each", {
      slices: plural(picked.folded - 1, "more slice"),
    });
  }
  return details;
}

function opDetails(model: Model, s: number, i: number, window: Window): Details {
  const stream = model.streams[s];
  const [start, end] = [stream.start[i], stream.end[i]];
  const ran = end - start;
  const token = CLASS_TOKENS[stream.cls[i]];
  const rows: DetailRow[] = [];
  const life: [string, number][] = [];
  const call = stream.launchRow[i];
  const where = stream.innerLine[i] > 0 ? say("line {line}", { line: stream.innerLine[i] }) : "";
  if (call >= 0 && model.launches) {
    const launches = model.launches;
    const launched = launches.track.start[call];
    const inCall = Math.max(0, Math.min(start, launches.track.end[call]) - Math.min(start, launched));
    const free = Math.min(start, Math.max(launched + inCall, freeAt(stream, i)));
    const behind = Math.max(0, free - launched - inCall);
    const waiting = Math.max(0, start - launched - inCall - behind);
    const before = stream.pile.depthAt(launched) - 1;
    const ops = launches.ops[call];
    const name = shortName(model, launches.track.name[call]);
    const by = ops > 1 ? say("{name} of {ops}", { name, ops: plural(ops, "op") }) : name;
    rows.push(
      row(
        "launched",
        at(model, launched),
        [where, outerOp(model, launches.thread[call], launched)].filter(Boolean).join(", "),
      ),
    );
    rows.push(row("in the call", duration(inCall), by));
    if (behind > 0)
      rows.push(
        row(
          "behind",
          duration(behind),
          before > 0 ? say("{ops} ahead of it in its stream", { ops: plural(before, "op") }) : say("its stream"),
        ),
      );
    rows.push(row("waiting", duration(waiting), waiting > 20_000 ? say("its stream was free") : say("launch latency")));
    rows.push(...lineRows(model, s, i));
    life.push(["launch", inCall], [`queued ${token}`, behind], [`held ${token}`, waiting]);
    if (GRAPH.test(fullName(model, launches.track.name[call])))
      rows.push(row("graph", plural(ops, "op"), say("in one launch")));
  } else {
    rows.push(row("launched", say("not recorded"), stream.orphan[i] ? say("before the recording began") : where));
  }
  rows.push(...originRows(model, stream.origin[i]));
  rows.push(row("ran", duration(ran), `${at(model, start)} → ${at(model, end)}`));
  life.push([token, ran]);
  if (stream.bytes[i] >= 0) {
    rows.push(row("moved", size(stream.bytes[i]), ran > 0 ? bandwidth(stream.bytes[i], ran) : ""));
  }
  const laid = model.header.shapes[stream.shape[i] - 1];
  if (laid) rows.push(row("grid", laid[0], laid[1]));
  const like = likeIt(model, stream.name[i], window);
  const more = like.count - (start < window[1] && end > window[0] ? 1 : 0);
  const foot =
    more > 0
      ? say("{n} more with this name in view, {time} in total", { n: count(more), time: duration(like.ns) })
      : "";
  const full = [say("stream {stream}", { stream: stream.wire.stream }), full_(model, stream.name[i])]
    .filter(Boolean)
    .join(" · ");
  return { title: shortName(model, stream.name[i]), token, full, life, rows, foot };
}

/** The line of a function that queued an op, who called it, and the line whose backward the op is. */
function lineRows({ lines, streams }: Model, s: number, i: number): DetailRow[] {
  if (!lines) return [];
  const [chain, forward] = [streams[s].chain[i], streams[s].forward[i]];
  return [
    ...(lines.inFunction(chain) ? [row("queued by", "", lines.words(chain))] : []),
    ...(forward ? [row("backward of", "", lines.words(forward))] : []),
  ];
}

/** What asked for an op: long words, which wrap where a note stands. */
function originRows(model: Model, origin: number): DetailRow[] {
  const [operator, inputs, module, frame] = model.origins[origin - 1] ?? ["", "", "", ""];
  const found = [row("operator", "", operator), row("inputs", "", inputs), row("module", "", module)];
  return [...found, row("called in", "", frame)].filter(({ note }) => note);
}

function full_(model: Model, name: number): string {
  const full = fullName(model, name);
  return full === shortName(model, name) ? "" : full;
}

/** The outermost operator a thread was in. */
function outerOp(model: Model, thread: number, instant: number): string {
  const track = model.threads[thread]?.levels[0];
  if (!track) return "";
  const [first, last] = track.range(instant, instant);
  return last > first ? shortName(model, track.name[first]) : "";
}

function hostDetails(model: Model, t: number, level: number, i: number): Details {
  const thread = model.threads[t];
  const track = thread.levels[level];
  const [start, end] = [track.start[i], track.end[i]];
  const line = lineAt(model.cell, start);
  const rows = [row("ran", duration(end - start), `${at(model, start)} → ${at(model, end)}`)];
  if (line) rows.push(row("line", String(line), model.cell!.texts[String(line)] ?? ""));
  const blocked = model.blocked?.union.covered(start, end) ?? 0;
  if (blocked > 0) rows.push(row("blocked", duration(blocked), say("waiting for the device")));
  const above = thread.frames && level ? thread.levels[level - 1] : null;
  const [caller, after] = above ? above.range(start, start) : [0, 0];
  if (above && after > caller) rows.push(row("called by", "", shortName(model, above.name[caller])));
  const full = [thread.label, say("level {level}", { level: level + 1 }), full_(model, track.name[i])]
    .filter(Boolean)
    .join(" · ");
  return { title: shortName(model, track.name[i]), token: "host1", full, life: [], rows, foot: "" };
}

function launchDetails(model: Model, i: number): Details {
  const { track, ops, opStream, opRow, line, thread } = model.launches!;
  const [start, end] = [track.start[i], track.end[i]];
  const where = [line[i] > 0 ? say("line {line}", { line: line[i] }) : "", outerOp(model, thread[i], start)]
    .filter(Boolean)
    .join(", ");
  const rows = [row("called", at(model, start), where), row("in the call", duration(end - start))];
  if (ops[i]) {
    const stream = model.streams[opStream[i]];
    const op = opRow[i];
    rows.push(
      row(
        "queued",
        plural(ops[i], "op"),
        `${shortName(model, stream.name[op])}, ${say("stream {stream}", { stream: stream.wire.stream })}`,
      ),
    );
    rows.push(
      row(
        "started",
        at(model, stream.start[op]),
        say("{time} after the call began", { time: duration(Math.max(0, stream.start[op] - start)) }),
      ),
    );
    rows.push(row("ran", duration(stream.end[op] - stream.start[op]), ops[i] > 1 ? say("the first of them") : ""));
  } else {
    rows.push(row("queued", plural(0, "op"), say("in this recording")));
  }
  return { title: shortName(model, track.name[i]), token: "launch", full: say("launch"), life: [], rows, foot: "" };
}

function blockedDetails(model: Model, i: number): Details {
  const blocked = model.blocked!;
  const [start, end] = [blocked.start[i], blocked.end[i]];
  const rows = [row("blocked", duration(end - start), `${at(model, start)} → ${at(model, end)}`)];
  if (blocked.line[i] > 0)
    rows.push(row("line", String(blocked.line[i]), model.cell?.texts[String(blocked.line[i])] ?? ""));
  const busy = model.groups.reduce((most, g) => Math.max(most, g.busy.covered(start, end)), 0);
  rows.push(row("meanwhile", duration(busy), say("the device was busy")));
  const token = blocked.besideWork[i] ? "ink3" : "wait";
  return { title: blocked.words[i], token, full: say("Python waits for the device"), life: [], rows, foot: "" };
}

function lineDetails(model: Model, i: number): Details {
  const cell = model.cell!;
  const line = cell.line[i];
  const [start, end] = [cell.spans.start[i], cell.spans.end[i]];
  const rows = [row("Python here", duration(end - start), `${at(model, start)} → ${at(model, end)}`)];
  let ops = 0;
  let ns = 0;
  for (const stream of model.streams) {
    for (let k = 0; k < stream.line.length; k++) {
      if (stream.line[k] !== line) continue;
      ops++;
      ns += stream.end[k] - stream.start[k];
    }
  }
  rows.push(row("queued", plural(ops, "op"), say("{time} on the device in total", { time: duration(ns) })));
  const blocked = model.blocked?.union.covered(start, end) ?? 0;
  if (blocked > 0) rows.push(row("blocked", duration(blocked), say("waiting for the device")));
  return {
    title: say("line {line}", { line }),
    token: "host1",
    full: cell.texts[String(line)] ?? "",
    life: [],
    rows,
    foot: say("click to mark its ops"),
  };
}
