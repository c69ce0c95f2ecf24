import { describe, expect, test } from "vitest";
import { Flame, type FlamePath, innermostOfAll } from "../src/model/flame.ts";
import { CASES, json, modelOf } from "./vectors.ts";

type Row = [string, string, number, number, number, number];

/** The paths in the order and the form in which Python writes them. */
function rowsOf({ wire }: Flame, paths: FlamePath[], depth = 0): Row[] {
  return paths.flatMap(({ name, kind, calls, total, self, inside }): Row[] => [
    [name, wire.kinds[kind][1], depth, calls, total, self],
    ...rowsOf({ wire } as Flame, inside, depth + 1),
  ]);
}

describe.each(CASES)("where Python was in %s", (name) => {
  test("is what perfmagic counts, path by path, to the nanosecond", async () => {
    const { flame } = await modelOf(name);
    for (const { window, n_paths, sums, first } of json(`${name}.expected.json`).flames) {
      const rows = flame ? rowsOf(flame, flame.threads(window)) : [];
      expect(rows.length).toBe(n_paths);
      expect(rows.slice(0, first.length)).toEqual(first);
      const place = (column: number): number => rows.reduce((sum, row, i) => sum + (i + 1) * Number(row[column]), 0);
      expect([2, 3, 4, 5].map(place)).toEqual(sums);
    }
  });
});

test("a selection is rounded to whole nanoseconds, as Python is told of it", async () => {
  const flame = (await modelOf("gp100")).flame!;
  const [first, last] = json("gp100.expected.json").flames[1].window;
  expect(flame.threads([first + 0.4, last - 0.4])).toEqual(flame.threads([first, last]));
});

/** One thread. calls: [start, end, path]; paths: [parent, label], of labels "a", "b", … behind that of the thread. */
function flameOf(calls: [number, number, number][], paths: [number, number][]): Flame {
  const column = (values: number[]): Float64Array => Float64Array.from(values);
  const wire = {
    start: 0,
    end: 100,
    kinds: [
      ["rule", ""],
      ["host1", "code"],
    ] as [string, string][],
    note: "",
  };
  const [start, end, path] = [0, 1, 2].map((i) => column(calls.map((call) => call[i])));
  const [parent, label] = [0, 1].map((i) => column([[0, 0], ...paths].map((row) => row[i])));
  const labels = ["thread", "a", "b"].map((word, i): [string, number] => [word, Math.min(i, 1)]);
  return new Flame(wire, { frames: { start, end, path }, paths: { parent, label } }, labels);
}

test("a call inside a call of the same name counts once in what is around it", () => {
  const [thread] = flameOf([[10, 50, 2], [20, 40, 3]], [[1, 1], [2, 1]]).threads([0, 100]); // prettier-ignore
  expect([thread.total, thread.self]).toEqual([100, 60]);
  const [outer] = thread.inside;
  expect([outer.total, outer.self, outer.inside[0].total]).toEqual([40, 20, 20]);
});

test("what is around all the time is left out, and the outermost path that varies stays", () => {
  const flame = flameOf([[0, 60, 2], [0, 60, 3], [10, 20, 4]], [[1, 1], [2, 2], [3, 1]]); // prettier-ignore
  expect(innermostOfAll(flame.threads([5, 50])[0]).id).toBe(3);
  expect(innermostOfAll(flame.threads([5, 70])[0]).id).toBe(1);
});

test("a thread on which nothing ran in the window is left out", () => {
  expect(flameOf([[10, 20, 2]], [[1, 1]]).threads([30, 40])).toEqual([]);
});
