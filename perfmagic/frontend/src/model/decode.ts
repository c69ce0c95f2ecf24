// From the payload's bytes back to columns of numbers.
import type { ChainRows, ColumnLayout, LabelRow } from "./wire.ts";

export type Columns = Record<string, Record<string, Float64Array>>;

export interface Decoded {
  columns: Columns;
  names: NameRow[];
  origins: OriginRow[];
  /** Of lines: their code, and the chains that ops lie on. */
  codes: string[];
  chains: ChainRows;
  /** What a flame graph names. */
  labels: LabelRow[];
}

type Texts = Omit<Decoded, "columns">;

/** [short name, full name or 0 where it is the same, class of the device op or -1] */
export type NameRow = [string, string | 0, number];

/** Where an op comes from: operator, its inputs, module, the user's own frame; each "" where it is not recorded. */
export type OriginRow = [string, string, string, string];

/** zlib data unpacked by the browser itself. */
export async function inflate(payload: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([payload as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** All columns of an unpacked payload. Throws when the bytes are fewer than the layout says. */
export function decode(bytes: Uint8Array, layout: ColumnLayout[]): Decoded {
  const columns: Columns = {};
  const texts: Texts = { names: [], origins: [], codes: [], chains: [[], []], labels: [] };
  for (const column of layout) {
    const size = column.width * column.rows;
    if (column.at + size > bytes.length) {
      throw new Error(`column ${column.table}.${column.name} ends at byte ${column.at + size} of ${bytes.length}`);
    }
    const data = bytes.subarray(column.at, column.at + size);
    if (column.code === "text") {
      Object.assign(texts, { [column.name]: JSON.parse(new TextDecoder().decode(data)) });
      continue;
    }
    (columns[column.table] ??= {})[column.name] = values(data, column);
  }
  for (const table of Object.values(columns)) {
    if (table["gap"] && table["duration"]) spans(table);
  }
  return { columns, ...texts };
}

/** Numbers whose bytes lie sorted by significance, lowest first: all lowest bytes, then all second, … */
function values(data: Uint8Array, { rows, width, code }: ColumnLayout): Float64Array {
  const numbers = new Float64Array(rows);
  const signed = code !== "plain";
  let sum = 0;
  if (!width) return numbers; // all zero
  for (let i = 0; i < rows; i++) {
    // whole numbers as long as they can be: that is several times faster
    let low = data[i];
    if (width > 1) low |= data[i + rows] << 8;
    if (width > 2) low |= data[i + 2 * rows] << 16;
    let value = signed ? (low >>> 1) ^ -(low & 1) : low;
    if (width > 3) {
      let all = low;
      for (let at = i + 3 * rows, worth = 2 ** 24; at < data.length; at += rows, worth *= 256) all += data[at] * worth;
      value = !signed ? all : low & 1 ? -(all + 1) / 2 : all / 2;
    }
    numbers[i] = code === "delta" ? (sum += value) : value;
  }
  return numbers;
}

/** Turns gap and duration into start and end, in place. */
function spans(table: Record<string, Float64Array>): void {
  const start = table["gap"];
  const end = table["duration"];
  let previous = 0;
  for (let i = 0; i < start.length; i++) {
    start[i] += previous;
    previous = end[i] += start[i];
  }
  table["start"] = start;
  table["end"] = end;
  delete table["gap"];
  delete table["duration"];
}
