import { describe, expect, test } from "vitest";
import { commandOf } from "../src/interact/keys.ts";
import { held, Scale, ticks, zoomed } from "../src/model/scale.ts";
import { initial, reduce, type Action, type State } from "../src/model/state.ts";

const after = (...actions: Action[]): State => actions.reduce(reduce, initial(1000));

describe("looking around", () => {
  test("zooming keeps the instant under the pointer where it is", () => {
    const view = zoomed([200, 600], 0.5, 300, [0, 1000]);
    expect(view).toEqual([250, 450]);
    expect(new Scale(...view, 100).x(300)).toBeCloseTo(new Scale(200, 600, 100).x(300));
  });

  test("the window never leaves the timeline", () => {
    expect(after({ do: "zoom", factor: 0.5 }, { do: "pan", share: 9 }).view).toEqual([500, 1000]);
    expect(held([-50, 50], [0, 1000])).toEqual([0, 100]);
    expect(after({ do: "zoom", factor: 50 }).view).toEqual([0, 1000]);
    expect(after({ do: "zoom", factor: 1e-9 }).view[1] - after({ do: "zoom", factor: 1e-9 }).view[0]).toBe(10);
  });

  test("a selection may be drawn backwards and ends at the edges", () => {
    expect(after({ do: "select", window: [700, -20] }).selection).toEqual([0, 700]);
  });

  test("showing a finding selects it and zooms near it; showing it again goes back", () => {
    const shown = after({ do: "finding", number: 1, window: [400, 500], line: 4 });
    expect(shown.selection).toEqual([400, 500]);
    expect(shown.view).toEqual([394, 506]);
    expect(reduce(shown, { do: "finding", number: 1, window: [400, 500], line: 4 }).view).toEqual([0, 1000]);
  });

  test("a finding about Python frames unfolds their lane, and folds what it has unfolded", () => {
    const show = (number: number, thread?: number): Action => ({
      do: "finding",
      number,
      window: [400, 500],
      line: 0,
      thread,
    });
    expect(after(show(1, 2)).open).toEqual([2]);
    expect(after(show(1, 2), show(1, 2)).open).toEqual([]);
    expect(after(show(1, 2), show(3)).open).toEqual([]);
    expect(after(show(1, 2), { do: "escape" }).open).toEqual([]);
    expect(after({ do: "thread", thread: 2 }, show(1, 2), show(1, 2)).open).toEqual([2]);
  });

  test("escape takes back one thing at a time", () => {
    let state = after({ do: "select", window: [1, 2] }, { do: "search", query: "mm" }, { do: "help" });
    state = reduce(state, { do: "escape" });
    expect([state.help, state.query, state.selection]).toEqual([false, "mm", [1, 2]]);
    state = reduce(state, { do: "escape" });
    expect([state.query, state.selection]).toEqual(["", [1, 2]]);
    state = reduce(state, { do: "escape" });
    expect(state.selection).toBeNull();
    expect(reduce(state, { do: "escape" })).toBe(state); // nothing is left: the notebook may have the key
  });

  test("classes of one switch go off and on together", () => {
    const off = after({ do: "class", cls: [5, 6] });
    expect(off.off).toBe((1 << 5) | (1 << 6));
    expect(reduce(off, { do: "class", cls: [5, 6] }).off).toBe(0);
  });
});

describe("keys", () => {
  const press = (key: string, more = {}) =>
    commandOf({ key, ctrlKey: false, altKey: false, metaKey: false, shiftKey: false, ...more });

  test("the listed ones have a command, capitals by caps lock too", () => {
    expect(press("w")).toBe("zoom in");
    expect(press("W")).toBe("zoom in");
    expect(press("]")).toBe("forth");
    expect(press("?", { shiftKey: true })).toBe("help");
  });

  test("the notebook keeps its own", () => {
    expect(press("s", { ctrlKey: true })).toBeNull();
    expect(press("a", { metaKey: true })).toBeNull();
    expect(press("x")).toBeNull();
    expect(press("A", { shiftKey: true })).toBeNull();
    expect(press("Enter", { altKey: true })).toBeNull();
    expect(press("Enter", { shiftKey: true })).toBeNull(); // runs the cell
    expect(press("ArrowLeft", { shiftKey: true })).toBeNull();
  });
});

test("labels of the axis are round, apart, and in one unit", () => {
  const found = ticks(78_550_000, 80_750_000, 800);
  expect(found.map((t) => t.text.replace("\u00a0", " "))).toEqual(["79.0 ms", "79.5 ms", "80.0 ms", "80.5 ms"]);
});
