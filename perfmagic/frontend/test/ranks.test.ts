import { describe, expect, test } from "vitest";
import { buildModel } from "../src/model/build.ts";
import { layoutOf, rankHeight } from "../src/model/layout.ts";
import { initial, reduce } from "../src/model/state.ts";
import type { Header, RankWire } from "../src/model/wire.ts";
import { modelOf } from "./vectors.ts";

const rank = (i: number): RankWire => ({
  ...{ rank: i, label: `rank ${i}`, title: `${i}.json`, words: ["waits 1 ms", "busy 50 %"] },
  ...{ start_ns: 0, end_ns: 100, part: null },
});

async function ranks(n: number) {
  const { header } = await modelOf("queue");
  const empty: Partial<Header> = { stream_lanes: [], thread_lanes: [], device_groups: [], memory_lanes: [] };
  const bare = { ...header, ...empty, launch_lane: null, cell_lane: null, span_ns: 1000 };
  const wait = { start: Float64Array.of(10, 50), end: Float64Array.of(20, 90) };
  const all = Array.from({ length: n }, (_, i) => rank(i));
  return buildModel({ ...bare, ranks: all }, { columns: { rank1_wait: wait }, names: [] });
}

describe("several ranks", () => {
  test("a row a rank under one axis, and nothing else", async () => {
    const model = await ranks(8);
    const { rows, height } = layoutOf(model, initial(model.span), 1200);
    expect(rows.map((row) => row.kind)).toEqual(["axis", ...Array(8).fill("rank")]);
    expect(rows.slice(1).map((row) => row.index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(height).toBeLessThan(400);
  });

  test("more ranks get lower rows", () => {
    const heights = [8, 16, 64].map((n) => n * rankHeight(n).reduce((a, b) => a + b));
    expect(Math.max(...heights)).toBeLessThan(900);
  });

  test("the bands of a row are those of its tables, and missing ones are empty", async () => {
    const model = await ranks(2);
    expect(model.ranks[1].wait.covered(0, 1000)).toBe(50);
    expect(model.ranks[1].wait.covered(15, 60)).toBe(15);
    expect(model.ranks[0].wait.length).toBe(0);
  });

  test("a row opens and closes; the window stays", () => {
    const open = reduce(reduce(initial(1000), { do: "look", view: [100, 300] }), { do: "rank", rank: 3 });
    expect(open.ranks).toEqual([3]);
    expect(open.view).toEqual([100, 300]);
    expect(reduce(reduce(open, { do: "rank", rank: 1 }), { do: "rank", rank: 3 }).ranks).toEqual([1]);
  });

  test("one timeline has no rows of ranks", async () => {
    expect((await modelOf("queue")).ranks).toEqual([]);
  });
});
