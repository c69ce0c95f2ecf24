import { expect, test } from "vitest";
import { commandOf } from "../src/interact/keys.ts";
import { TABS } from "../src/interact/tabs.ts";
import { MemoryStack } from "../src/model/memory_stack.ts";
import { MEMORY_PX, paintStack } from "../src/paint/memory_stack.ts";
import { Palette } from "../src/paint/theme.ts";
import { recorder } from "./recorder.ts";
import { modelOf } from "./vectors.ts";

const columns = {
  memory_reasons: { "0": Float64Array.of(1, 1, 1, 1), "1": Float64Array.of(0, 3, 4, 0) },
  memory_by_line: {
    "0": Float64Array.of(1, 1, 1, 1),
    "1": Float64Array.of(0, 3, 3, 0),
    "2": Float64Array.of(0, 0, 1, 0),
  },
};
const stack = new MemoryStack(
  {
    ...{ peak_bytes: 5, peak_column: 2, rows: [], more: [0, 0] },
    reasons: [
      ["parameters and buffers", "mem_parameters"],
      ["temporary, or until a later line", "mem_passing"],
    ],
    lines: [
      ["from before", "mem_before"],
      ["line 2", "mem_kept"],
      ["line 3", "mem_held"],
    ],
  },
  columns,
);

test("layers stand on each other, by reason and by line alike", () => {
  expect([...stack.reasons[1].low]).toEqual([1, 1, 1, 1]);
  expect([...stack.reasons[1].high]).toEqual([1, 4, 5, 1]);
  expect([...stack.lines[2].high]).toEqual([...stack.reasons[1].high]);
  expect(stack.reasons[1].high[stack.wire.peak_column]).toBe(stack.wire.peak_bytes);
});

test("a height at a column is in one layer, or in none", () => {
  expect([0, 0.9, 1, 4.9, 5].map((bytes) => stack.at(stack.reasons, 2, bytes))).toEqual([0, 0, 1, 1, -1]);
  expect(stack.at(stack.reasons, 0, 2)).toBe(-1);
  expect(stack.at(stack.lines, 2, 4.5)).toBe(2);
});

test("equal columns are one box, and the peak has its line", () => {
  const { context, places } = recorder();
  paintStack(context, new Palette("light"), stack, stack.reasons, 400, -1);
  const boxes = places.filter(([name]) => name === "fillRect").map(([, x, y]) => [x, y]);
  const high = MEMORY_PX / 5;
  expect(boxes.slice(1, 4)).toEqual([
    [0, expect.closeTo(4 * high)],
    [100, expect.closeTo(high)],
    [200, 0],
  ]);
  expect(boxes.filter(([x]) => x === 250).length).toBeGreaterThan(10);
});

test("the tab is there only where blocks were recorded", async () => {
  const model = await modelOf("lines");
  const tab = TABS.find(({ name }) => name === "memory")!;
  expect(tab.has(model)).toBe(false);
  expect(tab.has({ ...model, stack })).toBe(true);
  const pressed = { key: "m", ctrlKey: false, altKey: false, metaKey: false, shiftKey: false };
  expect(commandOf(pressed)).toBe("tab memory");
});
