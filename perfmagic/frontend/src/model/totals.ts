// Exact totals of a window: unions from prefix sums, names and lines by one pass over what is in it.
import { CLASS_TOKENS } from "./classes.ts";
import type { Window } from "./scale.ts";
import { below } from "./sorted.ts";
import { type Model, opsIn, shortName, type Stream } from "./store.ts";
import { term } from "./words.ts";

export interface DeviceTime {
  name: string;
  token: string;
  ns: number;
  /** The part not overlapped with compute; -1 where that is not a question. */
  exposed: number;
}

export interface NameTotal {
  name: string;
  token: string;
  ns: number;
  count: number;
}

export interface LineTotal {
  line: number;
  ns: number;
  blocked: number;
}

export interface Totals {
  window: Window;
  /** Of the busiest device. */
  busyFrac: number;
  launched: number;
  started: number;
  runAhead: Window | null;
  parts: DeviceTime[];
  names: NameTotal[];
  lines: LineTotal[];
}

/** The share of a window in which the busiest device ran something; cheap enough for every frame. */
export function busyFrac(model: Model, [from, to]: Window): number {
  const length = Math.max(1, to - from);
  return Math.max(0, ...model.groups.map((g) => g.busy.covered(from, to) / length));
}

export function totalsOf(model: Model, window: Window, off = 0): Totals {
  const [from, to] = window;
  let launched = 0;
  let started = 0;
  for (const stream of model.streams) {
    launched += below(stream.pile.launch, to) - below(stream.pile.launch, from);
    started += below(stream.start, to) - below(stream.start, from);
  }
  const { names, runAhead } = namesOf(model, window, off);
  return {
    ...{ window, launched, started, names, runAhead },
    busyFrac: busyFrac(model, window),
    parts: partsOf(model, window),
    lines: linesOf(model, window),
  };
}

function partsOf(model: Model, [from, to]: Window): DeviceTime[] {
  const parts: DeviceTime[] = [];
  const add = (name: string, token: string, ns: number, exposed = -1): void => {
    const known = parts.find((p) => p.name === name);
    if (known) {
      known.ns += ns;
      known.exposed += Math.max(0, exposed);
    } else if (ns > 0) parts.push({ name, token, ns, exposed });
  };
  for (const group of model.groups) {
    add(term("compute"), "comp", group.compute.covered(from, to));
    const comm = group.staves.find((s) => s.name === "communication");
    add(term("communication"), "comm", group.comm.covered(from, to), comm?.exposed?.covered(from, to));
    const copy = group.staves.find((s) => s.name === "copy");
    add(term("copy"), copy?.parts[0]?.token ?? "dtod", group.copy.covered(from, to), copy?.exposed?.covered(from, to));
    add(term("idle"), "idle", idleNs(group.busy, from, to));
  }
  return parts;
}

function idleNs(busy: Model["groups"][number]["busy"], from: number, to: number): number {
  if (!busy.length) return 0;
  const first = Math.max(from, busy.start[0]);
  const last = Math.min(to, busy.end[busy.length - 1]);
  return last > first ? last - first - busy.covered(first, last) : 0;
}

function namesOf(model: Model, [from, to]: Window, off: number): { names: NameTotal[]; runAhead: Window | null } {
  const ns = new Float64Array(model.names.length);
  const count = new Float64Array(model.names.length);
  let least = Infinity;
  let most = -Infinity;
  for (const stream of model.streams) {
    const [first, last] = opsIn(stream, from, to);
    for (let i = first; i < last; i++) {
      const part = Math.min(stream.end[i], to) - Math.max(stream.start[i], from);
      if (part < 0 || (part === 0 && stream.end[i] > stream.start[i]) || off & (1 << stream.cls[i])) continue;
      ns[stream.name[i]] += part;
      count[stream.name[i]]++;
      if (stream.launchRow[i] < 0 || stream.start[i] < from) continue;
      const ahead = stream.start[i] - stream.launch[i];
      if (ahead < least) least = ahead;
      if (ahead > most) most = ahead;
    }
  }
  const used: number[] = [];
  for (let i = 0; i < count.length; i++) if (count[i]) used.push(i);
  used.sort((a, b) => ns[b] - ns[a] || count[b] - count[a]);
  const names = used.slice(0, 5).map((i) => ({
    name: shortName(model, i),
    token: CLASS_TOKENS[Math.max(0, model.names[i][2])],
    ns: ns[i],
    count: count[i],
  }));
  return { names, runAhead: most >= 0 ? [least, most] : null };
}

function linesOf(model: Model, [from, to]: Window): LineTotal[] {
  const { cell, blocked } = model;
  if (!cell) return [];
  const found = new Map<number, LineTotal>();
  const { start, end } = cell.spans;
  for (let i = below(end, from); i < start.length && start[i] < to; i++) {
    const part = Math.min(end[i], to) - Math.max(start[i], from);
    if (part <= 0) continue;
    const line = found.get(cell.line[i]) ?? { line: cell.line[i], ns: 0, blocked: 0 };
    line.ns += part;
    if (blocked) line.blocked += blocked.union.covered(Math.max(start[i], from), Math.min(end[i], to));
    found.set(line.line, line);
  }
  return [...found.values()].sort((a, b) => b.ns - a.ns).slice(0, 5);
}

/** How often and how long ops of one name run in a window. */
export function likeIt(model: Model, name: number, [from, to]: Window): { count: number; ns: number } {
  let count = 0;
  let ns = 0;
  for (const stream of model.streams) {
    const [first, last] = opsIn(stream, from, to);
    for (let i = first; i < last; i++) {
      if (stream.name[i] !== name) continue;
      count++;
      ns += Math.max(0, Math.min(stream.end[i], to) - Math.max(stream.start[i], from));
    }
  }
  return { count, ns };
}

/** The class that took most of the time of some ops. */
export function mainClass(stream: Stream, first = 0, last = stream.start.length): number {
  const time = new Float64Array(8);
  for (let i = first; i < last; i++) time[stream.cls[i]] += stream.end[i] - stream.start[i] + 1;
  return time.indexOf(Math.max(...time));
}
