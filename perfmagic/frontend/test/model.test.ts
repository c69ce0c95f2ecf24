import { describe, expect, test } from "vitest";
import { Pile, PileColumns } from "../src/model/pile.ts";
import { Pyramid } from "../src/model/pyramid.ts";
import { gallop, upTo } from "../src/model/sorted.ts";
import { Spans, gaps, subtract, unionAll, unionOf } from "../src/model/spans.ts";
import { Track } from "../src/model/track.ts";

/** Numbers that are the same in every run. */
function random(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

function track(start: number[], end: number[], cls: number[] = start.map(() => 0)): Track {
  const of = (values: number[]): Float64Array => Float64Array.from(values);
  return new Track({
    start: of(start),
    end: of(end),
    name: of(cls),
    cls: Uint8Array.from(cls),
    split: null,
    row: null,
  });
}

describe("searching", () => {
  test("gallop finds what the plain search finds, from any earlier place", () => {
    const next = random(1);
    const values = Float64Array.from({ length: 300 }, () => Math.floor(next() * 100)).sort();
    for (let k = 0; k < 400; k++) {
      const value = next() * 110 - 5;
      const right = upTo(values, value);
      expect(gallop(values, value, Math.floor(next() * (right + 1)))).toBe(right);
    }
  });

  test("the pyramid's largest is the largest, the first of equals", () => {
    const next = random(2);
    const values = Float64Array.from({ length: 5000 }, () => Math.floor(next() * 50));
    const pyramid = new Pyramid(values);
    for (let k = 0; k < 300; k++) {
      const from = Math.floor(next() * 5000);
      const to = from + Math.floor(next() * (5000 - from));
      const part = values.subarray(from, to);
      const most = part.reduce((a, b) => Math.max(a, b), -1);
      expect(pyramid.argmax(from, to)).toBe(to > from ? from + part.indexOf(most) : -1);
      const all: number[] = [];
      pyramid.atLeast(45, from, to, Infinity, (row) => all.push(row));
      expect(all).toEqual([...part.keys()].filter((i) => part[i] >= 45).map((i) => i + from));
    }
  });
});

describe("unions", () => {
  const next = random(3);
  const some = (n: number): Spans => {
    const start = Float64Array.from({ length: n }, () => Math.floor(next() * 200)).sort();
    return unionOf(
      start,
      start.map((s) => s + 1 + Math.floor(next() * 9)),
    );
  };
  const bits = (spans: Spans): boolean[] => Array.from({ length: 220 }, (_, t) => spans.at(t) >= 0);

  test("agree with a bit for every instant", () => {
    for (let k = 0; k < 30; k++) {
      const [a, b, c] = [some(12), some(9), some(5)];
      const [x, y, z] = [bits(a), bits(b), bits(c)];
      expect(bits(unionAll([a, b, c]))).toEqual(x.map((v, i) => v || y[i] || z[i]));
      expect(bits(subtract(a, b))).toEqual(x.map((v, i) => v && !y[i]));
      const first = x.indexOf(true);
      const last = x.lastIndexOf(true);
      expect(bits(gaps(a))).toEqual(x.map((v, i) => !v && i > first && i < last));
      const from = Math.floor(next() * 100);
      const to = from + Math.floor(next() * 100);
      expect(a.covered(from, to)).toBe(x.slice(from, to).filter(Boolean).length);
    }
  });

  test("shares of columns add up to what is covered, to the nanosecond", () => {
    const spans = some(20);
    const edges = Float64Array.from({ length: 8 }, (_, i) => 10 + i * 23.5);
    const sum = spans.shares(edges).reduce((a, share) => a + share * 23.5, 0);
    expect(sum).toBeCloseTo(spans.covered(10, edges[7]), 6);
  });
});

describe("level of detail", () => {
  test("a column that is 3 % busy has a share of 0.03", () => {
    const start = Array.from({ length: 100_000 }, (_, i) => i * 1000);
    const lane = track(
      start,
      start.map((s) => s + 30),
    );
    const out = [new Float64Array(50)];
    lane.addShares(
      Float64Array.from({ length: 51 }, (_, i) => i * 2_000_000),
      out,
    );
    for (const share of out[0]) expect(share).toBeCloseTo(0.03, 9);
  });

  test("slices cut by a column's edge count on both sides for what lies there", () => {
    const lane = track([0, 95, 300], [10, 120, 1000], [0, 1, 0]);
    const out = [new Float64Array(4), new Float64Array(4)];
    lane.addShares(Float64Array.of(0, 100, 200, 400, 500), out);
    expect([...out[0]]).toEqual([0.1, 0, 0.5, 1]);
    [0.05, 0.2, 0, 0].forEach((share, i) => expect(out[1][i]).toBeCloseTo(share, 12));
  });
});

describe("the pile", () => {
  const next = random(4);
  const start = Float64Array.from({ length: 60 }, () => Math.floor(next() * 400)).sort();
  const launch = start.map((s) => Math.max(0, s - Math.floor(next() * 90))).sort();
  const pile = new Pile(launch, start);

  test("a column's height is the mean number of queued ops, counted instant by instant", () => {
    const edges = Float64Array.of(0, 7, 50, 51, 199, 400, 500);
    const columns = new PileColumns(pile, edges);
    for (let c = 0; c < 6; c++) {
      for (const rank of [0, 13, 37, 60]) {
        let waiting = 0;
        for (let t = edges[c]; t < edges[c + 1]; t++) {
          for (let i = 0; i < rank; i++) if (launch[i] <= t && t < start[i]) waiting++;
        }
        expect(columns.level(rank, c)).toBeCloseTo(waiting / (edges[c + 1] - edges[c]), 9);
      }
    }
  });

  test("its greatest depth is that of some instant, and of no other", () => {
    for (const [from, to] of [
      [0, 500],
      [100, 180],
      [250, 251],
    ] as const) {
      let most = 0;
      for (let t = from; t < to; t++) most = Math.max(most, pile.depthAt(t));
      expect(pile.maxDepth(from, to)).toBe(most);
    }
  });

  test("a stretch holds only columns of one height", () => {
    const edges = Float64Array.from({ length: 301 }, (_, i) => i * 1.5);
    const columns = new PileColumns(pile, edges);
    columns.stretches.forEach((first, k) => {
      for (let i = first; i < columns.endOf(k); i++) expect(columns.depth(i)).toBe(columns.depth(first));
    });
  });
});
