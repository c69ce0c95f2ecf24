// What Python sends: the header's shape and its schema number. perfmagic/view/timeline/live_data.py writes it.

export const SCHEMA = 6;

export interface ColumnLayout {
  table: string;
  name: string;
  code: "plain" | "signed" | "delta" | "text";
  width: number;
  rows: number;
  at: number;
}

export interface FindingWire {
  rule: string;
  cost: string;
  cost_ns: number | null;
  /** 0, or for a part of a finding above one more than that has. */
  depth: number;
  cause: string;
  rest: string;
  lines: number[];
  start_ns: number;
  end_ns: number;
  /** Of a finding about Python frames: the lane that has them. */
  frame_lane?: number;
}

/** What to do, in the words that the text has too. */
export interface AnswerWire {
  headline: string;
  /** "" for all answers together. */
  action: string;
  /** What the run took and would take; before is "" where no replay can say, and after what it costs. */
  before: string;
  after: string;
  /** The interval, or that it is a bound. */
  sure: string;
  wrong: boolean;
  start_ns: number;
  end_ns: number;
  /** Rows of the findings. */
  evidence: number[];
  /** Evidence that no finding has: of several ranks, what single ones found. */
  others: string[];
}

export interface AnswersWire {
  /** Who decides, and the number behind it. */
  decides: [string, string];
  rows: AnswerWire[];
  together: AnswerWire | null;
  /** What is no answer, and what is to know of the record. */
  others: string[];
  warnings: string[];
}

export interface ShareWire {
  name: string;
  ns: number;
  token: string;
  second: string;
}

export interface GroupWire {
  device: number;
  label: string;
  short_label: string;
  n_ops: number;
  busy_frac: number;
  extent_ns: number;
  queue_max: number;
  n_streams: number;
  staves: string[];
  shares: ShareWire[];
  n_folded: number;
  folded_ops: number;
}

export interface StreamWire {
  device: number;
  stream: number;
  ops: number;
  queue_max: number;
  queue_mean: number;
  busy_frac: number;
  depth: number;
}

/** A row of a page of several ranks; its columns are the tables rank0_host, rank0_compute, … */
export interface RankWire {
  rank: number;
  label: string;
  title: string;
  /** What is shown beside the row: how long it waited, how busy it was. */
  words: [string, string];
  start_ns: number;
  end_ns: number;
  /** The rank's own timeline on the common axis: a payload behind the overview's; null where it was left out. */
  part: { at: number; bytes: number; header: Header } | null;
  /** Of a stage of a pipeline: the labels of its micro-batches, whose times are the table rank0_boxes. */
  boxes?: string;
}

/** The lines of the cell and of functions that it called; their rows are the table "lines". */
export interface LinesWire {
  /** Whether the lines of functions were followed. */
  followed: boolean;
  /** The cell, name "", then functions. more: rows that were left out. */
  blocks: { name: string; where: string; rows: number; more: number }[];
  folded: string[];
  notes: string[];
  /** Of the cell's rows: Python, waiting and device, ns, and ops. */
  total: [number, number, number, number] | null;
  /** Gaps of Python's time that are shorter are not drawn; 0 where all are. */
  grain_ns: number;
  /** Where blocks of memory were recorded: bytes of the cell's rows, then what comes below them, with the peak last. */
  memory?: [number, [string, number][]];
}

/** [function, "" for the cell; line; row, -1 where the line has none] */
export type Place = [string, number, number];
/** All places, and chains of them, the innermost line first. */
export type ChainRows = [Place[], number[][]];

/** Memory over allocations and releases; the layers' bytes are the tables memory_reasons and memory_by_line. */
export interface MemoryStackWire {
  peak_bytes: number;
  peak_column: number;
  /** [name, token], the lowest first */
  reasons: [string, string][];
  lines: [string, string][];
  /** What was alive at the peak: [layer of reasons, place, code, reason, blocks, bytes] */
  rows: [number, string, string, string, number, number][];
  /** Rows that were left out, and their bytes. */
  more: [number, number];
}

/** [name, row of FlameWire's kinds] */
export type LabelRow = [string, number];

/** Where Python was: its paths and calls are the tables paths and frames, and columns of the operators. */
export interface FlameWire {
  /** What was recorded of the host, in ns since the origin. */
  start: number;
  end: number;
  /** [token, words]; "" for threads. */
  kinds: [string, string][];
  note: string;
}

export interface Header {
  schema: number;
  origin_ns: number;
  span_ns: number;
  device_label: string;
  /** What was recorded: devices, ops, how busy. */
  about: string;
  n_ops: number;
  /** What busy_frac of a device is a share of, in words. */
  busy_of: string;
  simulated: boolean;
  /** Whether times are a model's or a replay's. */
  predicted?: boolean;
  /** Whether a model's, known to two digits; whether some of them have none. */
  rough?: boolean;
  at_least?: boolean;
  /** Null where they were not asked for: of the later ones of many ranks. */
  answers: AnswersWire | null;
  findings: FindingWire[];
  /** How many, as what opens them says it. */
  findings_words: string;
  device_groups: GroupWire[];
  flags: { at: number; text: string }[];
  trust: string[];
  failure: string;
  returned: number | null;
  from_cell: boolean;
  alt: string;
  /** Translations of labels by their English; only where the language is another. */
  words?: Record<string, string> | undefined;
  /** What the critical path of the run consists of; empty, or not there, where that is not known. */
  path?: ShareWire[];
  thread_lanes: { label: string; levels: number[] }[];
  /** under: the lane of operators of the same thread, -1 where there is none. */
  frame_lanes: { label: string; levels: number[]; under: number }[];
  cell_lane: { texts: Record<string, string> } | null;
  launch_lane: { words: string[] } | null;
  stream_lanes: StreamWire[];
  lines: LinesWire | null;
  memory_stack?: MemoryStackWire;
  flame?: FlameWire;
  memory_lanes: { device: number; reserved_max: number }[];
  /** Of kernels: their blocks, and what each block has. */
  shapes: [string, string][];
  columns: ColumnLayout[];
  /** Of several ranks: the rows, and the bytes of the payload that hold their columns. */
  ranks?: RankWire[];
  /** What of the axis is shown first, and that in words. */
  view?: [number, number];
  shown?: string;
  /** The work that others wait for: its row, start, end and line. */
  mark?: [number, number, number, string] | null;
  /** What the marks mean: a token, "" for none, and words. */
  key?: [string, string][];
  /** Whether rows have boxes of micro-batches. */
  staged?: boolean;
  overview_bytes?: number;
  /** What collectives are, and of which group: "all_reduce · group 0". */
  kinds?: string[];
}

/** The header of a timeline. Throws with a sentence for readers when it was written for another version of this file. */
export function parseHeader(text: string): Header {
  const header = JSON.parse(text) as Header;
  if (header.schema !== SCHEMA) {
    throw new Error(`the data have version ${header.schema}, the script reads ${SCHEMA}: run the cell again`);
  }
  return header;
}
