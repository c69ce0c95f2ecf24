import { describe, expect, test } from "vitest";
import { decode } from "../src/model/decode.ts";
import { fullName } from "../src/model/store.ts";
import { parseHeader } from "../src/model/wire.ts";
import type { Track } from "../src/model/track.ts";
import * as units from "../src/model/units.ts";
import { CASES, json, modelOf } from "./vectors.ts";

const sum = (values: Iterable<number>): number => [...values].reduce((a, b) => a + b, 0);

describe.each(CASES)("what Python sent as %s", (name) => {
  test("has the same ops, launches, classes and lines", async () => {
    const model = await modelOf(name);
    const expected = json(`${name}.expected.json`);
    expect(model.streams.length).toBe(expected.streams.length);
    model.streams.forEach((stream, i) => {
      const want = expected.streams[i];
      expect(sum(stream.start)).toBe(want.start_sum);
      expect(sum(stream.end)).toBe(want.end_sum);
      expect(sum(stream.launch)).toBe(want.launch_sum);
      const classes = new Array(8).fill(0);
      for (const c of stream.cls) classes[c]++;
      expect(classes).toEqual(want.class_counts);
      expect([...new Set(stream.line)].sort((a, b) => a - b)).toEqual(want.lines);
      expect(stream.orphans).toBe(want.orphans);
      const first = model.names[stream.name[0]];
      expect(first[0]).toBe(want.first_name);
    });
    const [operators, frames] = [false, true].map((which) => model.threads.filter((t) => t.frames === which));
    expect(operators.map((t) => sum(t.levels.map((l) => l.length)))).toEqual(expected.host_rows);
    const ns = (level: Track): number => sum(level.end) - sum(level.start);
    expect(frames.map((t) => ({ rows: sum(t.levels.map((l) => l.length)), ns: sum(t.levels.map(ns)) }))).toEqual(
      expected.frames,
    );
    expect(model.launches?.track.length ?? 0).toBe(expected.launches);
    expect(model.blocked ? sum(model.blocked.end) - sum(model.blocked.start) : 0).toBe(expected.blocked_ns);
  });

  test("gives the same unions as Python's analysis", async () => {
    const model = await modelOf(name);
    const { staves } = json(`${name}.expected.json`);
    model.groups.forEach((group, i) => {
      const found = group.staves.map((stave) => ({
        name: stave.name,
        active_ns: stave.active.total,
        exposed_ns: stave.exposed ? stave.exposed.total : null,
      }));
      expect(found).toEqual(staves[i]);
    });
  });

  test("every sub-lane holds ops that do not overlap, and together they are all ops", async () => {
    const model = await modelOf(name);
    for (const stream of model.streams) {
      expect(sum(stream.tracks.map((t) => t.length))).toBe(stream.start.length);
      for (const track of stream.tracks) {
        for (let i = 1; i < track.length; i++) expect(track.start[i]).toBeGreaterThanOrEqual(track.end[i - 1]);
      }
    }
  });
});

test("numbers are written as Python writes them", () => {
  const amounts = json("amounts.json");
  for (const [value, text] of amounts.duration) expect(units.duration(value)).toBe(text);
  for (const [value, text] of amounts.size) expect(units.size(value)).toBe(text);
  for (const [value, text] of amounts.count) expect(units.count(value)).toBe(text);
  for (const [value, text] of amounts.percent) expect(units.percent(value)).toBe(text);
  for (const [ns, step, text] of amounts.duration_like) expect(units.durationLike(ns, step)).toBe(text);
});

test("a name of other people stays as it is", async () => {
  const model = await modelOf("queue");
  expect(fullName(model, model.streams[0].name[0])).toContain("<script>");
});

test("data of another version are refused in words", () => {
  expect(() => parseHeader('{"schema": 99}')).toThrow(/version 99.*reads \d+: run the cell again/);
});

test("data that end too early are refused", () => {
  const column = { table: "t", name: "x", code: "plain" as const, width: 4, rows: 10, at: 0 };
  expect(() => decode(new Uint8Array(39), [column])).toThrow("column t.x ends at byte 40 of 39");
});
