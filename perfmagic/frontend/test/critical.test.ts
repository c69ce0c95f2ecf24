import { describe, expect, test } from "vitest";
import { ALL_OF_PATH, initial, reduce } from "../src/model/state.ts";
import { painted } from "./frames.ts";
import { CASES, modelOf } from "./vectors.ts";

const rects = (changes: object, model: Awaited<ReturnType<typeof modelOf>>): [string, number, number][] =>
  painted(model, changes).places.filter(([name]) => name === "rect");

describe("the critical path", () => {
  test.each(CASES)("its parts follow one another and add up to the kinds of the header: %s", async (name) => {
    const { path, header, span, streams } = await modelOf(name);
    if (!path) return expect(header.path).toEqual([]);
    const sums = header.path!.map(() => 0);
    path.share.forEach((share, i) => (sums[share] += path.end[i] - path.start[i]));
    expect(sums).toEqual(header.path!.map((share) => share.ns));
    for (let i = 1; i < path.start.length; i++) expect(path.start[i]).toBe(path.end[i - 1]);
    expect(path.start[0]).toBeGreaterThanOrEqual(0);
    expect(path.end[path.end.length - 1]).toBeLessThanOrEqual(span);
    expect(path.stream.every((stream) => stream >= -1 && stream < streams.length)).toBe(true);
  });

  test("nothing is veiled until a kind is pointed at, and nothing in another tab", async () => {
    const model = await modelOf("queue");
    expect(rects({}, model)).toEqual([]);
    expect(rects({ path: 0, tab: "lines" }, model)).toEqual([]);
    expect(rects({ path: 0 }, model).length).toBeGreaterThan(1);
  });

  test("of one kind less is lit than of the whole path, and only where its stream is drawn", async () => {
    const model = await modelOf("queue");
    const { frame } = painted(model);
    const lane = frame.layout.rows.find((row) => row.kind === "lane")!;
    const kernels = model.header.path!.findIndex((share) => share.name.endsWith("kernels"));
    const [, ...lit] = rects({ path: kernels }, model); // the first is the veil
    expect(lit.every(([, , y]) => y === lane.y)).toBe(true);
    expect(rects({ path: ALL_OF_PATH }, model).length).toBeGreaterThan(lit.length + 1);
  });

  test("what is pointed at stays lit until it is left", () => {
    const lit = reduce(initial(10), { do: "path", share: 2 });
    expect(lit.path).toBe(2);
    expect(reduce(lit, { do: "path", share: 2 })).toBe(lit);
    expect(reduce(lit, { do: "path", share: -1 }).path).toBe(-1);
  });
});
