// The memory tab: the stack on a canvas, by reason or by line, and what was alive at the peak as a table.
import { button, el, swatch } from "./dom.ts";
import type { Panel } from "./panel.ts";
import type { Tab } from "./tabs.ts";
import { type Layout, layoutOf } from "../model/layout.ts";
import type { Layer, MemoryStack } from "../model/memory_stack.ts";
import type { Model } from "../model/store.ts";
import type { Action } from "../model/state.ts";
import { count, plural, size } from "../model/units.ts";
import { MEMORY_PX, paintStack } from "../paint/memory_stack.ts";
import type { Context } from "../paint/text.ts";
import { Palette, type Theme } from "../paint/theme.ts";
import { say, term } from "../model/words.ts";

const HINT = term(
  "Each step to the right is an allocation or a release; waiting takes no room. Point at a layer or at a row.",
);

export const MEMORY_TAB: Tab = {
  name: term("memory"),
  key: "m",
  help: term("what held the memory; again: back to the timeline"),
  has: (model) => model.stack !== null,
  layout: layoutOf,
  panel: memoryPanel,
};

function memoryPanel(model: Model, _act: (action: Action) => void, signal: AbortSignal): Panel {
  const stack = model.stack!;
  const told = el("div", "pm-say", say(HINT));
  told.setAttribute("aria-live", "polite");
  const canvas = el("canvas");
  canvas.setAttribute("role", "img");
  const key = el("div", "pm-linekey");
  const [table, rows] = peakTable(stack);
  let byLine = false;
  let lit = -1;
  let width = 0;
  let palette = new Palette("light");
  const shown = (): Layer[] => (byLine ? stack.lines : stack.reasons);
  const draw = (): void => {
    if (!width) return;
    const dpr = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [Math.round(width * dpr), Math.round(MEMORY_PX * dpr)];
    Object.assign(canvas.style, { width: `${width}px`, height: `${MEMORY_PX}px` });
    const g = canvas.getContext("2d")!;
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    paintStack(g as unknown as Context, palette, stack, shown(), width, lit);
  };
  const light = (layer: number, words = ""): void => {
    lit = layer;
    rows.forEach((row, i) => row.classList.toggle("pm-told", !byLine && stack.wire.rows[i][0] === layer));
    told.textContent = words || (layer < 0 ? say(HINT) : layerWords(shown()[layer], stack));
    draw();
  };
  const turn = button("", say("layers by line of the cell, or by reason"), () => flip(), signal);
  const flip = (): void => {
    byLine = !byLine;
    named();
    light(-1);
  };
  const named = (): void => {
    turn.textContent = byLine ? say("by reason") : say("by line");
    canvas.setAttribute(
      "aria-label",
      `${say("memory")} ${byLine ? say("by line") : say("by reason")}, ${say("{size} at the peak", { size: size(stack.wire.peak_bytes) })}`,
    );
    key.replaceChildren(...shown().map(({ name, token }) => el("span", "", swatch(token), name)));
  };
  named();
  canvas.addEventListener(
    "pointermove",
    ({ offsetX, offsetY }) => {
      const column = Math.min(stack.length - 1, Math.max(0, Math.floor((offsetX / width) * stack.length)));
      const bytes = (1 - offsetY / MEMORY_PX) * stack.wire.peak_bytes;
      const found = stack.at(shown(), column, bytes);
      const held = found < 0 ? 0 : shown()[found].high[column] - shown()[found].low[column];
      light(found, found < 0 ? "" : `${shown()[found].name}: ${say("{size} here", { size: size(held) })}`);
    },
    { signal },
  );
  canvas.addEventListener("pointerleave", () => light(-1), { signal });
  rows.forEach((row, i) => {
    const on = (): void => light(byLine ? -1 : stack.wire.rows[i][0]);
    row.addEventListener("pointerenter", on, { signal });
    row.addEventListener("focus", on, { signal });
    row.addEventListener("pointerleave", () => light(-1), { signal });
  });
  const node = el("div", "pm-lines pm-memory", el("div", "", told, turn), canvas, key, table);
  node.setAttribute("role", "tabpanel");
  node.setAttribute("aria-label", say("memory"));
  return {
    node,
    update() {},
    step(by) {
      const next = rows[rows.findIndex((row) => row === document.activeElement) + by];
      next?.focus();
      return next !== undefined;
    },
    paint(_scale, layout: Layout, theme: Theme) {
      if (palette.theme !== theme) palette = new Palette(theme);
      width = layout.width;
      draw();
    },
  };
}

function layerWords({ name, low, high }: Layer, { wire }: MemoryStack): string {
  return `${name}: ${say("{size} at the peak", { size: size(high[wire.peak_column] - low[wire.peak_column]) })}`;
}

/** The rows of the table, with bars that add up to the peak. */
function peakTable({ wire }: MemoryStack): [HTMLTableElement, HTMLTableRowElement[]] {
  const heads = [say("at the peak"), say("blocks"), say("allocated on"), say("code"), say("why")].map((words) => {
    const head = el("th", "", words);
    head.scope = "col";
    return head;
  });
  const rows = wire.rows.map(([layer, place, code, why, n, bytes]) => {
    const bar = el("i");
    bar.style.width = `${(bytes / wire.peak_bytes) * 100}%`;
    bar.style.background = `var(--pm-${wire.reasons[layer][1]})`;
    bar.style.opacity = "0.55";
    const cells = [el("td", "", bar, el("span", "", size(bytes))), el("td", "", count(n)), el("td", "", place)];
    const row = el("tr", "pm-ran", ...cells, el("td", "", el("div", "pm-code", code)), el("td", "", why));
    row.tabIndex = 0;
    return row;
  });
  const more = wire.more[0]
    ? [el("tr", "", el("td", "", size(wire.more[1])), el("td", "", plural(wire.more[0], "more row")))]
    : [];
  const total = el("tr", "pm-total", el("td", "", size(wire.peak_bytes)), el("td", "", say("the peak")));
  return [el("table", "", el("thead", "", el("tr", "", ...heads)), el("tbody", "", ...rows, ...more, total)), rows];
}
