import { describe, expect, test } from "vitest";
import { buildModel } from "../src/model/build.ts";
import { layoutOf, rankHeight } from "../src/model/layout.ts";
import { detailsOf } from "../src/interact/details.ts";
import { pick } from "../src/interact/pick.ts";
import { spanOf } from "../src/interact/walk.ts";
import { placeOf } from "../src/model/rank_bands.ts";
import { Scale } from "../src/model/scale.ts";
import { Spans } from "../src/model/spans.ts";
import type { Ref } from "../src/model/store.ts";
import { commOf } from "../src/paint/rank.ts";
import { inked, painted } from "./frames.ts";
import { initial, reduce } from "../src/model/state.ts";
import type { Header, RankWire } from "../src/model/wire.ts";
import { modelOf } from "./vectors.ts";

const rank = (i: number): RankWire => ({
  ...{ rank: i, label: `rank ${i}`, title: `${i}.json`, words: ["waits 1 ms", "computes 2 ms"] },
  ...{ start_ns: 0, end_ns: 100, part: null },
});

async function ranks(n: number) {
  const { header } = await modelOf("queue");
  const empty: Partial<Header> = { stream_lanes: [], thread_lanes: [], device_groups: [], memory_lanes: [] };
  const bare = { ...header, ...empty, launch_lane: null, cell_lane: null, lines: null, span_ns: 1000 };
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

  test("of the job's critical path what is pointed at is lit in the row of its rank", async () => {
    const model = await ranks(3);
    const path = {
      start: Float64Array.of(0, 400),
      end: Float64Array.of(400, 1000),
      share: Float64Array.of(0, 1),
      stream: Float64Array.of(2, 1),
    };
    const shown = { ...model, path } as unknown as typeof model;
    const rows = painted(shown).frame.layout.rows.filter((row) => row.kind === "rank");
    const lit = (share: number): number[] =>
      painted(shown, { path: share })
        .places.filter(([name]) => name === "rect")
        .slice(-1)
        .map(([, , y]) => y);
    expect(lit(0)).toEqual([rows[2].y]);
    expect(lit(1)).toEqual([rows[1].y]);
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

  test("a view opens on what the header says, and fits the whole time", () => {
    const opened = initial(1000, [100, 300]);
    expect(opened.view).toEqual([100, 300]);
    expect(reduce(opened, { do: "fit" }).view).toEqual([0, 1000]);
    expect(initial(1000).view).toEqual([0, 1000]);
  });

  test("micro-batches are boxes with labels in two colours, and the work that others wait for has its line", async () => {
    const model = await ranks(2);
    const boxes = new Spans(Float64Array.of(0, 400), Float64Array.of(400, 900));
    const shown = { ...model, ranks: [{ ...model.ranks[0], boxes, labels: ["0F3", "4B3"] }, model.ranks[1]] };
    const header = { ...model.header, mark: [1, 100, 800, "line 5"] as [number, number, number, string] };
    const { frame, written } = painted({ ...shown, header });
    const words = written.map(({ text }) => text);
    for (const each of ["0F3", "4B3", "line 5"]) expect(words).toContain(each);
    expect(painted(shown).written.map(({ text }) => text)).not.toContain("line 5");
    const [at, end] = [frame.scale.x(200), frame.scale.x(850)].map(Math.round);
    for (const [x, token] of [
      [at, "comp"],
      [end, "matrix"],
    ] as const)
      expect(inked(frame, "rank", x, frame.palette.pixel(token))).toBeGreaterThan(8);
  });

  test("one timeline has no rows of ranks", async () => {
    expect((await modelOf("queue")).ranks).toEqual([]);
  });
});

/** Two ranks: an all-reduce to which rank 1 comes last at 50, one of which nobody knows, and a message 0 → 1. */
async function meeting() {
  const { header } = await modelOf("queue");
  const empty: Partial<Header> = { stream_lanes: [], thread_lanes: [], device_groups: [], memory_lanes: [] };
  const bare = {
    ...header,
    lines: null,
    ...empty,
    launch_lane: null,
    cell_lane: null,
    span_ns: 1000,
    kinds: ["all_reduce · group 0"],
  };
  const of = (...values: number[]): Float64Array => Float64Array.of(...values);
  const columns = {
    meet: { met: of(50, 300), waited: of(40, 0), err: of(0, 7), last: of(1, -1), kind: of(0, 0) },
    part: {
      meeting: of(0, 0, 1, 1),
      row: of(0, 1, 0, 1),
      start: of(40, 0, 5, 0),
      length: of(60, 20, 30, 30),
      wait: of(40, 0, 5, 0),
    },
    message: {
      met: of(500),
      source: of(0),
      target: of(1),
      sent: of(-100),
      sent_end: of(20),
      asked: of(0),
      arrived: of(40),
    },
    rank0_wait: { start: of(35), end: of(50) },
    rank0_wait_beside: { start: of(10), end: of(35) },
    rank1_got: { start: of(500), end: of(540) },
  };
  return buildModel({ ...bare, ranks: [rank(0), rank(1)] }, { columns, names: [], origins: [] });
}

describe("where ranks meet", () => {
  test("each collective has a part of every rank, and each message two ends", async () => {
    const { meets, messages } = (await meeting()).joined!;
    expect([...meets.first]).toEqual([0, 2, 4]);
    expect([...meets.start]).toEqual([10, 50, 295, 300]);
    expect([...meets.end]).toEqual([70, 70, 325, 330]);
    expect([messages.sent[0], messages.sentEnd[0], messages.asked[0], messages.arrived[0]]).toEqual([
      400, 520, 500, 540,
    ]);
    expect(messages.longest).toBe(40);
  });

  test("what is pointed at in a row is the collective, in its lower half the message it receives", async () => {
    const model = await meeting();
    const layout = layoutOf(model, initial(1000), 1200);
    const scale = new Scale(0, 1000, layout.plot);
    const at = (row: number, ns: number, share: number) => {
      const [y, h] = placeOf(layout.rows[1 + row], "comm");
      return pick(model, layout, scale, scale.x(ns), y + share * h).ref;
    };
    expect(at(0, 30, 0.5)).toEqual({ kind: "meeting", row: 0 });
    expect(at(1, 60, 0.2)).toEqual({ kind: "meeting", row: 0 });
    expect(at(0, 310, 0.5)).toEqual({ kind: "meeting", row: 1 });
    expect(at(0, 450, 0.5)).toEqual({ kind: "message", row: 0 });
    expect(at(1, 520, 0.8)).toEqual({ kind: "message", row: 0 });
    expect(at(1, 520, 0.2)).toBe(null); // rank 1 sends nothing
    expect(at(0, 200, 0.5)).toBe(null);
    expect(spanOf(model, { kind: "meeting", row: 0 })).toEqual([10, 70]);
    expect(spanOf(model, { kind: "message", row: 0 })).toEqual([400, 540]);
  });

  test("the card names who came last, how long each waited and moved data", async () => {
    const model = await meeting();
    const card = detailsOf(model, { kind: "meeting", row: 0 }, [0, 1000]);
    expect(card.title).toBe("all_reduce");
    expect(card.full).toBe("group 0 · 2 ranks");
    expect(card.rows.map((one) => [one.name, one.value])).toEqual(
      [
        ["came last", "rank 1"],
        ["rank 0", "waits 40 ns, 25 ns overlapped with compute"],
        ["rank 1", "waits 0 ns"],
      ].map(([name, value]) => [name, value.replaceAll(/(\d) /g, "$1\u00a0")]),
    );
    expect(card.rows[1].note).toBe("moves data for 20\u00a0ns");
    expect(detailsOf(model, { kind: "meeting", row: 1 }, [0, 1000]).rows[0].value).toBe("not certain");
    expect(detailsOf(model, { kind: "meeting", row: 1 }, [0, 1000]).rows[1].value).toBe("waits 5\u00a0ns ± 7\u00a0ns");
    expect(detailsOf(model, { kind: "message", row: 0 }, [0, 1000]).rows[0].value).toBe("waits 100\u00a0ns");
  });

  test("lines join the rows, dots stand on the last rank, arrows point at who receives", async () => {
    const model = await meeting();
    const { frame, places } = painted(model, {}, 1200);
    const [y0, y1] = [0, 1].map((i) => commOf(frame, frame.layout.rows[1 + i], false));
    const middle = ([y, h]: [number, number]): number => y + h / 2;
    const drawn = (name: string, ns: number): number[] =>
      places.filter(([what, x]) => what === name && Math.abs(x - frame.scale.x(ns)) < 0.01).map(([, , y]) => y);
    expect(drawn("moveTo", 50)).toEqual([middle(y0)]);
    expect(drawn("lineTo", 50)).toEqual([middle(y1)]);
    expect(drawn("arc", 50)).toEqual([middle(y1), middle(y1)]); // rank 1, with an edge of ground
    expect(drawn("lineTo", 300)).toEqual([middle(y1)]);
    expect(drawn("arc", 300)).toEqual([]);
    expect(drawn("moveTo", 500)).toEqual([middle(y0)]);
    expect(drawn("lineTo", 540)).toEqual([middle(commOf(frame, frame.layout.rows[2], true))]);
  });

  test("pointing at a collective outlines it on all ranks", async () => {
    const model = await meeting();
    const outlines = (hover: Ref | null): number =>
      painted(model, { hover }, 1200).calls.filter((name) => name === "strokeRect").length;
    expect(outlines(null)).toBe(0);
    expect(outlines({ kind: "meeting", row: 0 })).toBe(2);
    expect(outlines({ kind: "message", row: 0 })).toBe(2);
  });
});
