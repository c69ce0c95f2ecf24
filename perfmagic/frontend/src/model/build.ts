// From decoded columns to the model: tracks, piles and unions.
import { CLASSES, COMM, COMPUTE, DTOD, DTOH, HTOD, MATRIX, PTOP, UNKNOWN } from "./classes.ts";
import type { Columns, Decoded } from "./decode.ts";
import { Flame } from "./flame.ts";
import { Lines } from "./lines.ts";
import { BEFORE_THE_RECORD, Pile } from "./pile.ts";
import { picked } from "./sorted.ts";
import { gaps, Spans, subtract, unionAll, unionOf } from "./spans.ts";
import type {
  Blocked,
  CellLines,
  CriticalPath,
  Group,
  Launches,
  Memory,
  Model,
  Stave,
  StavePart,
  Stream,
  Thread,
} from "./store.ts";
import { Track } from "./track.ts";
import type { GroupWire, Header, StreamWire } from "./wire.ts";
import { speak } from "./words.ts";

/** What few results have. */
export const PARTS: ((model: Model, columns: Columns) => void)[] = [];

/** Builds the model from what was decoded. */
export function buildModel(header: Header, decoded: Decoded): Model {
  speak(header);
  const { columns, names, origins } = decoded;
  const classes = Uint8Array.from(names, (row) => Math.max(0, row[2]));
  const table = columns["launch"];
  const streams = header.stream_lanes.map((wire, i) =>
    stream(wire, columns[`stream${i}`] ?? {}, classes, table?.["start"]),
  );
  const groups = header.device_groups.map((wire) => group(wire, streams));
  const model: Model = {
    header,
    names,
    origins,
    span: header.span_ns,
    streams,
    threads: [
      ...header.thread_lanes.map((wire, i) => thread({ ...wire, under: -1 }, false, columns[`host${i}`])),
      ...header.frame_lanes.map((wire, i) => thread(wire, true, columns[`frames${i}`])),
    ],
    launches: table && header.launch_lane ? launches(table, streams) : null,
    blocked: header.launch_lane ? blocked(columns["blocked"], header.launch_lane.words) : null,
    cell: header.cell_lane ? cellLines(columns, header.cell_lane.texts) : null,
    groups,
    memory: header.memory_lanes.map((wire, i) => memory(columns[`memory${i}`], wire)),
    ranks: [],
    stack: null,
    flame: header.flame ? new Flame(header.flame, columns, decoded.labels) : null,
    path: path(columns["path"]),
    lines: header.lines && new Lines(header.lines, columns, decoded.codes, decoded.chains, streams),
  };
  for (const add of PARTS) add(model, columns);
  return model;
}

function path(columns: Columns[string] | undefined): CriticalPath | null {
  const start = columns?.["start"];
  if (!columns || !start?.length) return null;
  return { start, end: columns["end"], share: columns["share"], stream: columns["stream"].map((number) => number - 1) };
}

function stream(wire: StreamWire, columns: Columns[string], classes: Uint8Array, calls?: Float64Array): Stream {
  const get = (name: string): Float64Array => columns[name] ?? new Float64Array(0);
  const [start, end, name] = [get("start"), get("end"), get("name")];
  const [launchRow, wait, orphan, line] = [get("launch"), get("wait"), get("orphan"), get("line")];
  const [subLane, split] = [get("sub_lane"), get("split")];
  const n = start.length;
  const cls = new Uint8Array(n);
  const launch = new Float64Array(n);
  const keys = new Float64Array(n);
  let orphans = 0;
  for (let i = 0; i < n; i++) {
    cls[i] = classes[name[i]];
    launch[i] = launchRow[i] >= 0 && calls ? Math.min(calls[launchRow[i]], start[i]) : start[i] - wait[i];
    keys[i] = orphan[i] ? BEFORE_THE_RECORD : line[i];
    orphans += orphan[i];
  }
  const tracks = tracksOf({ start, end, name, cls }, subLane, split, wire.depth);
  const pile = new Pile(launch, start);
  const [innerLine, bytes, shape, origin] = [get("inner_line"), get("bytes"), get("shape"), get("origin")];
  const [chain, forward] = [get("chain"), get("forward")];
  const busy = wire.depth > 1 ? unionOf(start, end) : new Spans(start, end);
  const runs = pile.runs(keys);
  return {
    ...{ wire, start, end, name, cls, launchRow, launch, line, innerLine, orphan, subLane, bytes, shape, origin },
    ...{ chain, forward, tracks, busy, pile, runs, orphans },
  };
}

/** One track a sub-lane. The usual stream has one, and shares its columns with it. */
function tracksOf(
  ops: { start: Float64Array; end: Float64Array; name: Float64Array; cls: Uint8Array },
  subLane: Float64Array,
  split: Float64Array,
  depth: number,
): Track[] {
  if (depth <= 1) return [new Track({ ...ops, split: null, row: null })];
  const rows: number[][] = Array.from({ length: depth }, () => []);
  for (let i = 0; i < subLane.length; i++) rows[subLane[i]].push(i);
  return rows.map((those, lane) => {
    const row = new Int32Array(those);
    const pick = (values: Float64Array): Float64Array => picked(values, row);
    const cls = new Uint8Array(row.length).map((_, i) => ops.cls[row[i]]);
    const shared = new Uint8Array(row.length).map((_, i) => split[row[i]] + 1);
    const columns = { start: pick(ops.start), end: pick(ops.end), name: pick(ops.name), cls, split: shared, row };
    return new Track(columns, lane);
  });
}

function plainTrack(start: Float64Array, end: Float64Array, name: Float64Array): Track {
  return new Track({ start, end, name, cls: new Uint8Array(start.length), split: null, row: null });
}

function thread(wire: Header["frame_lanes"][number], frames: boolean, columns?: Columns[string]): Thread {
  const several = wire.levels.findIndex((size) => size > 1);
  const outer = frames ? Math.max(0, several - 1) : 0; // what called the code that varies is the same all the time
  return { label: wire.label, frames, under: wire.under, outer, levels: levels(wire.levels, columns) };
}

function levels(sizes: number[], columns?: Columns[string]): Track[] {
  let first = 0;
  return sizes.map((size) => {
    const part = (name: string): Float64Array => (columns?.[name] ?? new Float64Array(0)).slice(first, first + size);
    const track = plainTrack(part("start"), part("end"), part("name"));
    first += size;
    return track;
  });
}

function launches(columns: Columns[string], streams: Stream[]): Launches {
  const [start, end, name] = [columns["start"], columns["end"], columns["name"]];
  const [line, thread] = [columns["line"], columns["thread"]];
  const opStream = new Int32Array(start.length).fill(-1);
  const opRow = new Int32Array(start.length).fill(-1);
  const ops = new Int32Array(start.length);
  streams.forEach((stream, s) => {
    for (let i = 0; i < stream.launchRow.length; i++) {
      const call = stream.launchRow[i];
      if (call < 0) continue;
      ops[call]++;
      if (opStream[call] < 0 || stream.start[i] < streams[opStream[call]].start[opRow[call]]) {
        opStream[call] = s;
        opRow[call] = i;
      }
    }
  });
  return { track: plainTrack(start, end, name), line, thread, opStream, opRow, ops, busy: unionOf(start, end) };
}

function blocked(columns: Columns[string] | undefined, words: string[]): Blocked | null {
  const start = columns?.["start"];
  if (!columns || !start?.length) return null;
  const which = Array.from(columns["words"], (i) => words[i]);
  const { end, line, beside_work: besideWork = new Float64Array(start.length) } = columns;
  return {
    start,
    end,
    line,
    words: which,
    besideWork,
    union: unionOf(start, end),
    lost: unionOf(start, end, (i) => !besideWork[i]),
  };
}

function cellLines(columns: Columns, texts: Record<string, string>): CellLines | null {
  const cell = columns["cell"];
  return cell ? { spans: new Spans(cell["start"], cell["end"]), line: cell["line"], texts } : null;
}

function memory(columns: Columns[string], wire: { device: number; reserved_max: number }): Memory {
  const bytes = columns["bytes"];
  const peak = bytes.reduce((most, value) => Math.max(most, value), 0);
  return { device: wire.device, at: columns["at"], bytes, peak, reserved: wire.reserved_max };
}

function group(wire: GroupWire, all: Stream[]): Group {
  const streams = all.flatMap((s, i) => (s.wire.device === wire.device ? [i] : []));
  const ofClass = (...wanted: number[]): Spans => {
    const counts = Uint8Array.from({ length: CLASSES }, (_, c) => (wanted.includes(c) ? 1 : 0));
    const having = streams.map((i) => all[i]).filter((s) => s.tracks.some((t) => t.classes.some((c) => counts[c])));
    return unionAll(having.map(({ start, end, cls }) => unionOf(start, end, (row) => counts[cls[row]] === 1)));
  };
  const compute = ofClass(MATRIX, COMPUTE, UNKNOWN);
  const busy = unionAll(streams.map((i) => (all[i].wire.depth > 1 ? all[i].busy : unionOf(all[i].start, all[i].end))));
  const comm = ofClass(COMM);
  const part = (token: string, active: Spans): StavePart => ({ token, active, exposed: subtract(active, compute) });
  const copies = [part("dtod", ofClass(DTOD)), part("dtod", ofClass(PTOP)), part("htod", ofClass(HTOD))];
  copies.push(part("dtoh", ofClass(DTOH)));
  const copy = unionAll(copies.map((p) => p.active));
  const idle = gaps(busy);
  const staves: Stave[] = [];
  for (const name of wire.staves) {
    if (name === "compute") {
      staves.push({
        name,
        parts: [{ token: "comp", active: compute, exposed: compute }],
        active: compute,
        exposed: null,
      });
    } else if (name === "communication") {
      const one = part("comm", comm);
      staves.push({ name, parts: [one], active: comm, exposed: one.exposed });
    } else if (name === "copy") {
      const parts = copies.filter((p) => p.active.length);
      staves.push({ name, parts, active: copy, exposed: subtract(copy, compute) });
    } else if (name === "idle") {
      staves.push({ name, parts: [{ token: "idle", active: idle, exposed: idle }], active: idle, exposed: null });
    }
  }
  return { wire, streams, busy, compute, comm, copy, staves };
}
