// The lines of the cell and of its functions: what each cost, which lines an op lies on, and when each was at work.
import { picked } from "./sorted.ts";
import type { Columns } from "./decode.ts";
import { NOTHING, Spans, unionAll, unionOf } from "./spans.ts";
import type { ChainRows, LinesWire, Place } from "./wire.ts";
import { say } from "./words.ts";

/** What is read of a stream: its ops' times and the numbers of their chains. */
type Charged = Record<"start" | "end" | "launch" | "chain" | "forward", Float64Array>;

/** When a line was at work. backward: ops of its backward ran that another line queued. */
export interface When {
  python: Spans;
  waiting: Spans;
  queued: Spans;
  executing: Spans;
  backward: Spans;
}

const MOST_CALLERS = 8;

export class Lines {
  /** peak: bytes alive at the peak, there only with wire.memory. */
  readonly column: Record<"line" | "ran" | "python" | "blocked" | "device" | "backward" | "ops" | "peak", Float64Array>;
  private readonly rows: readonly number[][];
  private times: When[] | null = null;
  /** Of each row and stream: when ops of its backward ran. */
  private onStream: Spans[][] = [];

  constructor(
    readonly wire: LinesWire,
    private readonly columns: Columns,
    readonly codes: string[],
    private readonly chains: ChainRows,
    private readonly streams: Charged[],
  ) {
    this.column = columns["lines"] as Lines["column"];
    const [places, all] = chains;
    this.rows = all.map((chain) => [...new Set(chain.map((place) => places[place][2]).filter((row) => row >= 0))]);
  }

  get length(): number {
    return this.codes.length;
  }

  /** The rows that a chain's number names, the innermost first. */
  rowsOf(chain: number): readonly number[] {
    return this.rows[chain - 1] ?? [];
  }

  /** The rows of an op's forward operator that are not its own too. */
  forwardOf(stream: Charged, op: number): number[] {
    const own = this.rowsOf(stream.chain[op]);
    return this.rowsOf(stream.forward[op]).filter((row) => !own.includes(row));
  }

  /** "Block.forward line 8, called from Net.forward line 17, line 6"; "" for no chain. */
  words(chain: number): string {
    const found = (this.chains[1][chain - 1] ?? []).map((place) => placeWords(this.chains[0][place]));
    const more = found.length - 1 - MOST_CALLERS;
    const some = found.slice(1, 1 + MOST_CALLERS).join(", ");
    const callers = more > 0 ? say("{callers} and {n} more", { callers: some, n: more }) : some;
    return callers ? say("{line}, called from {callers}", { line: found[0], callers }) : (found[0] ?? "");
  }

  /** Whether an op's line stands in a function: else its line says all that is known. */
  inFunction(chain: number): boolean {
    const innermost = this.chains[1][chain - 1]?.[0];
    return innermost !== undefined && this.chains[0][innermost][0] !== "";
  }

  /** The row of a line of the cell, -1 where it has none. */
  ofCell(line: number): number {
    const { blocks } = this.wire;
    if (blocks[0]?.name !== "" || !line) return -1;
    return this.column.line.subarray(0, blocks[0].rows).indexOf(line);
  }

  place(row: number): string {
    let first = 0;
    for (const { name, rows } of this.wire.blocks) {
      if (row < (first += rows)) return placeWords([name, this.column.line[row], row]);
    }
    return "";
  }

  /** Whether each chain's number holds a row. */
  holding(row: number): Uint8Array {
    return Uint8Array.from([0, ...this.rows.map((rows) => Number(rows.includes(row)))]);
  }

  /** The times of every row; worked out when they are first asked for. */
  when(): When[] {
    return (this.times ??= this.collected());
  }

  /** When ops of a line's backward ran on a stream. */
  backwardOn(row: number, stream: number): Spans {
    this.when();
    return this.onStream[row][stream];
  }

  private collected(): When[] {
    const sent = (name: string): Spans[] => {
      const { start, end } = this.columns[`lines_${name}`];
      let first = 0;
      return Array.from(this.columns["lines"][`n_${name}`], (n) => {
        const part = [first, (first += n)] as const;
        return new Spans(start.subarray(...part), end.subarray(...part));
      });
    };
    const [python, waiting] = [sent("python"), sent("waiting")];
    const queued = this.codes.map((): Spans[] => []);
    const executing = this.codes.map((): Spans[] => []);
    const backward = this.codes.map((): Spans[] => []);
    for (const stream of this.streams) {
      const own = this.codes.map((): number[] => []);
      const other = this.codes.map((): number[] => []);
      for (let i = 0; i < stream.start.length; i++) {
        for (const row of this.rowsOf(stream.chain[i])) own[row].push(i);
        if (stream.forward[i]) for (const row of this.forwardOf(stream, i)) other[row].push(i);
      }
      own.forEach((ops, row) => {
        executing[row].push(union(ops, stream.start, stream.end));
        ops.sort((a, b) => stream.launch[a] - stream.launch[b]);
        queued[row].push(union(ops, stream.launch, stream.start));
      });
      other.forEach((ops, row) => backward[row].push(union(ops, stream.start, stream.end)));
    }
    this.onStream = backward.map((parts) => [...parts]); // unionAll takes its list apart
    return this.codes.map((_, row) => ({
      ...{ python: python[row], waiting: waiting[row] },
      ...{ queued: unionAll(queued[row]), executing: unionAll(executing[row]), backward: unionAll(backward[row]) },
    }));
  }
}

function placeWords([name, line]: Place): string {
  return name ? say("{name} line {line}", { name, line }) : say("line {line}", { line });
}

function union(ops: number[], start: Float64Array, end: Float64Array): Spans {
  if (!ops.length) return NOTHING;
  return unionOf(picked(start, ops), picked(end, ops));
}
