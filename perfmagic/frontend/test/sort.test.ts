import { describe, expect, it } from "vitest";
import { order } from "../src/host/sort.ts";

describe("rows of a table", () => {
  const sorted = (keys: (number | string | null)[], sign: 1 | -1) => order(keys, (key) => key, sign);

  it("are sorted by number, not by the text of it", () => {
    expect(sorted([9, 10, 1500, -1], 1)).toEqual([-1, 9, 10, 1500]);
    expect(sorted([9, 10, 1500, -1], -1)).toEqual([1500, 10, 9, -1]);
  });

  it("are sorted by text where there is no number, with numbers in it counted", () => {
    expect(sorted(["stream 10", "stream 9", "a"], 1)).toEqual(["a", "stream 9", "stream 10"]);
  });

  it("that are empty come last either way, and those that tie keep their order", () => {
    expect(sorted([null, 2, 1], 1)).toEqual([1, 2, null]);
    expect(sorted([null, 2, 1], -1)).toEqual([2, 1, null]);
    const rows = [["x", 1] as const, ["y", 1] as const, ["z", 2] as const];
    expect(order([...rows], (row) => row[1], -1).map((row) => row[0])).toEqual(["z", "x", "y"]);
  });
});
