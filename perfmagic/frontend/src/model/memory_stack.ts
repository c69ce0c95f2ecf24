// Memory over allocations and releases, as layers by reason or by line of the cell.
import type { Columns } from "./decode.ts";
import type { MemoryStackWire } from "./wire.ts";

export interface Layer {
  name: string;
  token: string;
  /** Bytes below the layer, and with it, at each column. */
  low: Float64Array;
  high: Float64Array;
}

export class MemoryStack {
  readonly reasons: Layer[];
  readonly lines: Layer[];

  constructor(
    readonly wire: MemoryStackWire,
    columns: Columns,
  ) {
    this.reasons = layers(wire.reasons, columns["memory_reasons"]);
    this.lines = layers(wire.lines, columns["memory_by_line"]);
  }

  /** How many columns there are to draw. */
  get length(): number {
    return this.reasons[0]?.high.length ?? 0;
  }

  /** The layer at a column and a height in bytes, -1 for none. */
  at(all: Layer[], column: number, bytes: number): number {
    return all.findIndex(({ low, high }) => bytes >= low[column] && bytes < high[column]);
  }
}

function layers(named: [string, string][], table: Record<string, Float64Array> | undefined): Layer[] {
  let low = new Float64Array(table?.["0"]?.length ?? 0);
  return named.map(([name, token], i) => {
    const high = low.map((bytes, column) => bytes + table![i][column]);
    const layer = { name, token, low, high };
    low = high;
    return layer;
  });
}
