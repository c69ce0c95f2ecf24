import { describe, expect, test } from "vitest";
import { commandOf } from "../src/interact/keys.ts";
import { obey, type Commanded } from "../src/interact/commands.ts";
import { detailsOf } from "../src/interact/details.ts";
import { TABS } from "../src/interact/tabs.ts";
import { hitsOf } from "../src/model/hits.ts";
import { tellingOp, tellingRow } from "../src/model/telling.ts";
import { lineColumns, linesLayout } from "../src/model/lines_layout.ts";
import { Scale } from "../src/model/scale.ts";
import { Spans } from "../src/model/spans.ts";
import { initial, reduce, type Action, type State } from "../src/model/state.ts";
import type { Model } from "../src/model/store.ts";
import { boxes } from "../src/paint/line_strips.ts";
import { CASES, json, modelOf } from "./vectors.ts";

const STEP_2 = 2; // rows of the vector "lines": the cell's two, step line 2 and 3, work line 11
const WORK_11 = 4;

function on(model: Model, ...actions: Action[]): State {
  const all: Action[] = [{ do: "tab", tab: "lines" }, ...actions];
  return all.reduce(reduce, initial(model.span));
}

const op = (row: number): Action => ({ do: "hover", ref: { kind: "op", stream: 0, row } });

describe("the lines of functions", () => {
  test.each(CASES)("of %s were at work as long as Python says", async (name) => {
    const { lines } = await modelOf(name);
    const found = lines?.when().map((when, row) => ({
      ...{ line: lines.column.line[row], code: lines.codes[row] },
      ...{ python: when.python.total, waiting: when.waiting.total, queued: when.queued.total },
      ...{ executing: when.executing.total, backward: when.backward.total },
    }));
    expect(found ?? []).toEqual(json(`${name}.expected.json`).lines);
  });

  test("are named from the innermost, with who called them", async () => {
    const { lines, streams } = await modelOf("lines");
    const { chain, forward } = streams[0];
    expect(lines!.words(chain[0])).toBe("step line 2, called from line 2");
    expect(lines!.words(chain[2])).toBe("step line 2, called from step line 3, line 2");
    expect(lines!.words(chain[3])).toBe("line 2");
    expect(lines!.words(forward[3])).toBe("step line 2, called from line 2");
    expect([...forward].slice(0, 3)).toEqual([0, 0, 0]);
  });

  test("an op tells of its lines, and its backward of the forward's that are not its own", async () => {
    const model = await modelOf("lines");
    const { lines, streams } = model;
    expect(lines!.rowsOf(streams[0].chain[1])).toEqual([WORK_11, 1]);
    expect(lines!.forwardOf(streams[0], 3)).toEqual([STEP_2]); // the cell's line is the op's own
    expect(lines!.backwardOn(STEP_2, 0).total).toBe(2e6);
    expect(lines!.backwardOn(WORK_11, 0).total).toBe(0);
  });

  test("stand on the card of an op in the timeline", async () => {
    const model = await modelOf("lines");
    const rows = (i: number): string[] =>
      detailsOf(model, { kind: "op", stream: 0, row: i }, [0, model.span]).rows.map((r) => `${r.name}: ${r.note}`);
    expect(rows(2)).toContain("queued by: step line 2, called from step line 3, line 2");
    expect(rows(3)).toContain("backward of: step line 2, called from line 2");
    expect(rows(3).join()).not.toContain("queued by"); // a line of the cell: said by the launch
  });
});

describe("what the lines tab tells of", () => {
  test("a line lights its ops and no others", async () => {
    const model = await modelOf("lines");
    const hits = hitsOf(model, on(model, { do: "row", row: STEP_2 }))!;
    expect([0, 1, 2, 3].map((i) => hits.has(model.streams[0], i))).toEqual([true, false, true, false]);
    expect(hits.count).toBe(2);
    expect(hitsOf(model, { ...on(model, { do: "row", row: STEP_2 }), tab: "timeline" })).toBeNull();
  });

  test("the pointer comes before the pinned row, an op before both", async () => {
    const model = await modelOf("lines");
    const pinned = on(model, { do: "pin", row: 1 });
    expect(tellingRow(model, pinned)).toBe(1);
    expect(tellingRow(model, reduce(pinned, { do: "row", row: 3 }))).toBe(3);
    const above = reduce(pinned, op(1));
    expect(tellingRow(model, above)).toBe(-1);
    expect(tellingOp(model, above)).toEqual({ kind: "op", stream: 0, row: 1 });
    expect(tellingRow(model, reduce(above, { do: "hover", ref: null }))).toBe(1);
  });

  test("a launch tells of the op it queued, a finding's line of its row", async () => {
    const model = await modelOf("lines");
    const state = on(model, { do: "hover", ref: { kind: "launch", row: 1 } });
    expect(tellingOp(model, state)).toEqual({ stream: 0, row: 1 });
    expect(tellingRow(model, on(model, { do: "line", line: 2 }))).toBe(1);
  });

  test("Escape takes the pin away before anything in the timeline", async () => {
    const model = await modelOf("lines");
    const state = on(model, { do: "select", window: [0, 10] }, { do: "pin", row: 1 }, { do: "escape" });
    expect(state.pinnedRow).toBe(-1);
    expect(state.selection).toEqual([0, 10]);
  });

  test("switching keeps the window and the selection", async () => {
    const model = await modelOf("lines");
    const looked = on(model, { do: "look", view: [1e7, 2e7] }, { do: "select", window: [1.1e7, 1.2e7] });
    const back = reduce(looked, { do: "tab", tab: "timeline" });
    expect([back.view, back.selection]).toEqual([looked.view, looked.selection]);
  });
});

describe("keys", () => {
  const press = (key: string): ReturnType<typeof commandOf> =>
    commandOf({ key, ctrlKey: false, altKey: false, metaKey: false, shiftKey: false });
  const view = (model: Model, state: State): Commanded & { done: Action[] } => {
    const done: Action[] = [];
    const act = (action: Action): number => done.push(action);
    return { model, state, hits: null, pointer: null, done, act, focusOn: () => {}, step: () => false };
  };

  test("every tab but the first has one, and it goes there and back", async () => {
    const model = await modelOf("lines");
    for (const { name, key } of TABS.slice(1).filter((tab) => tab.has(model))) {
      const there = view(model, initial(model.span));
      expect(obey(there, press(key)!)).toBe(true);
      expect(there.done).toEqual([{ do: "tab", tab: name }]);
      const back = view(model, { ...initial(model.span), tab: name });
      obey(back, press(key)!);
      expect(back.done).toEqual([{ do: "tab", tab: "timeline" }]);
    }
  });

  test("a key of a tab that is not there stays the notebook's", async () => {
    const model = await modelOf("noise"); // no line is known
    expect(obey(view(model, initial(model.span)), press("l")!)).toBe(false);
    expect(obey(view(model, initial(model.span)), press("ArrowDown")!)).toBe(false);
  });

  test("Enter pins the row that is told of", async () => {
    const model = await modelOf("lines");
    const at = view(model, on(model, { do: "row", row: 3 }));
    expect(obey(at, press("Enter")!)).toBe(true);
    expect(at.done).toEqual([{ do: "pin", row: 3 }]);
  });
});

describe("the room", () => {
  test("all columns and the strip fit the width; where they cannot, the view is wider than it", async () => {
    const model = await modelOf("lines");
    for (const width of [720, 1000, 2400]) {
      const { left, plot, right, width: all } = linesLayout(model, initial(model.span), width);
      expect(left + plot + right).toBe(width);
      expect(all).toBe(width);
    }
    expect(linesLayout(model, initial(model.span), 300).width).toBeGreaterThan(300);
  });

  test("a backward has a column where there is one", async () => {
    const names = async (name: string): Promise<string[]> => lineColumns(await modelOf(name)).map((c) => c.name);
    expect(await names("lines")).toContain("its backward");
    expect(await names("queue")).not.toContain("its backward");
  });
});

test("boxes stand on whole pixels, and what touches in them is one", () => {
  const spans = new Spans(Float64Array.of(0, 10.2, 10.6, 11.1, 50), Float64Array.of(0.1, 10.4, 10.7, 11.2, 60));
  expect(boxes(spans, new Scale(0, 100, 100))).toEqual([
    [0, 1],
    [10, 2],
    [50, 10],
  ]);
  expect(boxes(spans, new Scale(55, 65, 100))).toEqual([[0, 50]]);
  expect(boxes(spans, new Scale(20, 40, 100))).toEqual([]);
});

test("memory has a column only where blocks were recorded", async () => {
  const model = await modelOf("lines");
  const names = (): string[] => lineColumns(model).map((column) => column.of);
  expect(names()).not.toContain("peak");
  const before = linesLayout(model, initial(model.span), 1000).right;
  model.lines!.wire.memory = [3, [["the peak", 3]]];
  expect(names().at(-1)).toBe("peak");
  expect(linesLayout(model, initial(model.span), 1000).right).toBeGreaterThan(before);
});
