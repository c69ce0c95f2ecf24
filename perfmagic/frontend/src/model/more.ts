// What few models have: rows of several ranks, where they meet, and blocks of memory.
import type { Columns } from "./decode.ts";
import { meetsOf, messagesOf } from "./meets.ts";
import { MemoryStack } from "./memory_stack.ts";
import { NOTHING, Spans, unionAll } from "./spans.ts";
import type { Model, Rank } from "./store.ts";
import type { RankWire } from "./wire.ts";

/** Adds what a header of ranks describes. */
export function addRanks(model: Model, columns: Columns): void {
  const { ranks, kinds = [] } = model.header;
  if (!ranks) return;
  model.ranks = ranks.map((wire, i) => rank(wire, (name) => columns[`rank${i}_${name}`]));
  model.joined = { meets: meetsOf(kinds, columns), messages: messagesOf(columns) };
}

export function addStack(model: Model, columns: Columns): void {
  const wire = model.header.memory_stack;
  if (wire) model.stack = new MemoryStack(wire, columns);
}

const BANDS = "host blocked compute transfer wait waitBeside got asked askedBeside copy idle boxes".split(" ");

function rank(wire: RankWire, table: (name: string) => Columns[string] | undefined): Rank {
  const spans = BANDS.map((name) => {
    const found = table(name.replace("B", "_b"));
    return [name, found?.["start"] ? new Spans(found["start"], found["end"]) : NOTHING];
  });
  const bands = Object.fromEntries(spans) as unknown as Rank;
  const labels = wire.boxes?.split(" ") ?? [];
  return { ...bands, wire, labels, waits: unionAll([bands.wait, bands.asked]) };
}
