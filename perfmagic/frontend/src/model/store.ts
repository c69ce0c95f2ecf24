// The model of a timeline: what was sent, as tracks, piles and unions. Immutable once built; every view reads it.
import type { MemoryStack } from "./memory_stack.ts";
import type { NameRow, OriginRow } from "./decode.ts";
import type { Flame } from "./flame.ts";
import type { Lines } from "./lines.ts";
import type { Meets, Messages } from "./meets.ts";
import type { Pile, Run } from "./pile.ts";
import { upTo } from "./sorted.ts";
import type { Spans } from "./spans.ts";
import type { Track } from "./track.ts";
import type { GroupWire, Header, RankWire, StreamWire } from "./wire.ts";

/** Something that can be pointed at. row: of the columns of its lane. */
export type Ref =
  | { kind: "op"; stream: number; row: number }
  | { kind: "host"; thread: number; level: number; row: number }
  | { kind: "launch"; row: number }
  | { kind: "blocked"; row: number }
  | { kind: "line"; row: number }
  | { kind: "meeting"; row: number }
  | { kind: "message"; row: number };

export interface Stream {
  wire: StreamWire;
  /** Rows are ops in the order in which they started. */
  start: Float64Array;
  end: Float64Array;
  name: Float64Array;
  cls: Uint8Array;
  launchRow: Float64Array;
  launch: Float64Array;
  line: Float64Array;
  innerLine: Float64Array;
  orphan: Float64Array;
  subLane: Float64Array;
  bytes: Float64Array;
  /** 1 + the row of header.shapes, 0 where the record does not say. */
  shape: Float64Array;
  /** 1 + the row of the model's origins, 0 where the record does not say. */
  origin: Float64Array;
  /** The number of the chain of lines that the op lies on, and that of its forward operator; 0 where it is not known. */
  chain: Float64Array;
  forward: Float64Array;
  tracks: Track[];
  busy: Spans;
  pile: Pile;
  runs: Run[];
  orphans: number;
}

/** The operators of a thread, or its Python frames. */
export interface Thread {
  label: string;
  frames: boolean;
  /** Of frames: the thread whose operators stand above them, -1 where there is none. */
  under: number;
  /** Outermost levels that are left out while the thread is folded. */
  outer: number;
  levels: Track[];
}

export interface Launches {
  track: Track;
  line: Float64Array;
  thread: Float64Array;
  /** First op that each call queued: its stream and row, -1 where none is drawn; and how many. */
  opStream: Int32Array;
  opRow: Int32Array;
  ops: Int32Array;
  busy: Spans;
}

export interface Blocked {
  start: Float64Array;
  end: Float64Array;
  line: Float64Array;
  words: string[];
  /** 1 where nothing came later for it. */
  besideWork: Float64Array;
  union: Spans;
  /** Of those that cost something. */
  lost: Spans;
}

export interface StavePart {
  token: string;
  active: Spans;
  exposed: Spans;
}

export interface Stave {
  name: string;
  parts: StavePart[];
  active: Spans;
  exposed: Spans | null;
}

export interface Group {
  wire: GroupWire;
  /** Indices into the model's streams. */
  streams: number[];
  busy: Spans;
  compute: Spans;
  comm: Spans;
  copy: Spans;
  staves: Stave[];
}

export interface Memory {
  device: number;
  at: Float64Array;
  bytes: Float64Array;
  peak: number;
  reserved: number;
}

export interface CellLines {
  spans: Spans;
  line: Float64Array;
  texts: Record<string, string>;
}

export interface Rank {
  wire: RankWire;
  host: Spans;
  /** Python in a call that blocks it. */
  blocked: Spans;
  compute: Spans;
  /** Of collectives and sends; of receives below them `got`, `asked` and `askedBeside`. */
  transfer: Spans;
  /** With nothing else to do. */
  wait: Spans;
  /** The same and `asked`. */
  waits: Spans;
  /** Beside compute or data moving: it costs nothing. */
  waitBeside: Spans;
  got: Spans;
  asked: Spans;
  askedBeside: Spans;
  copy: Spans;
  idle: Spans;
  /** Micro-batches; their labels are the wire's. */
  boxes: Spans;
  labels: string[];
}

/** The critical path in time: its kinds are the header's, a stream is a row of the model's, -1 for the host. */
export interface CriticalPath {
  start: Float64Array;
  end: Float64Array;
  share: Float64Array;
  stream: Float64Array;
}

export interface Model {
  header: Header;
  names: NameRow[];
  origins: OriginRow[];
  span: number;
  streams: Stream[];
  /** First those of operators, then those of frames. */
  threads: Thread[];
  launches: Launches | null;
  blocked: Blocked | null;
  cell: CellLines | null;
  groups: Group[];
  memory: Memory[];
  /** Rows of a page of several ranks; empty for one timeline. */
  ranks: Rank[];
  joined?: { meets: Meets; messages: Messages };
  /** Null where the record knows no lines. */
  lines: Lines | null;
  stack: MemoryStack | null;
  /** Null where nothing was recorded of the host. */
  flame: Flame | null;
  /** Null where it is not known, or too long to be sent. */
  path: CriticalPath | null;
}

export function shortName(model: Model, name: number): string {
  return model.names[name][0];
}

export function fullName(model: Model, name: number): string {
  return model.names[name][1] || model.names[name][0];
}

/** The line of the cell that was running at an instant, 0 for none. */
export function lineAt(cell: CellLines | null, instant: number): number {
  const row = cell ? cell.spans.at(instant) : -1;
  return row < 0 ? 0 : cell!.line[row];
}

/** The latest end among the ops of lower row: when the stream was free for this one. */
export function freeAt(stream: Stream, row: number): number {
  const first = stream.wire.depth > 1 ? 0 : Math.max(0, row - 1);
  let latest = -Infinity;
  for (let i = first; i < row; i++) latest = Math.max(latest, stream.end[i]);
  return latest;
}

/** Rows of a stream's ops that run in [from, to). */
export function opsIn(stream: Stream, from: number, to: number): [number, number] {
  const last = upTo(stream.start, to);
  let first = upTo(stream.start, from);
  if (stream.wire.depth <= 1) return [first && stream.end[first - 1] > from ? first - 1 : first, last];
  const busy = stream.busy.at(from);
  if (busy >= 0) first = Math.min(first, upTo(stream.start, stream.busy.start[busy]) - 1);
  return [Math.max(0, first), last];
}
