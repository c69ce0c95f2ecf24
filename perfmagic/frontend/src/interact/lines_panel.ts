// The lines tab below its strip: what is pointed at in words, and a table of code with what each line cost.
import { el } from "./dom.ts";
import { LineStrips } from "./line_strips.ts";
import { lineTable, type LineTable } from "./lines_table.ts";
import type { Panel } from "./panel.ts";
import { tellingOp, tellingRow } from "../model/telling.ts";
import { streamsLeftOut } from "../model/lines_layout.ts";
import { type Action, isWhole, type State } from "../model/state.ts";
import { type Model, shortName } from "../model/store.ts";
import { count, duration, plural, size } from "../model/units.ts";
import { say, term } from "../model/words.ts";

const KEY = [
  ["launch", term("Python on this line")],
  ["lost", term("waiting")],
  ["queued", term("its ops queued")],
  ["comp", term("its ops executing")],
  ["outline", term("its backward, queued by another line")],
] as const;
const FOLLOW = term(
  "Functions were not followed: on Python 3.10 and 3.11 `%%timeline --lines` follows them; from 3.12 on it does so unless --no-lines is given.",
);

export function linesPanel(model: Model, act: (action: Action) => void, signal: AbortSignal): Panel {
  const told = el("div", "pm-say");
  told.setAttribute("aria-live", "polite");
  const table = lineTable(model);
  const strips = new LineStrips(model, table.rows, signal);
  const node = el(
    "div",
    "pm-lines",
    told,
    el("div", "pm-linebox", table.node, strips.node),
    key(model),
    ...notes(model),
  );
  node.setAttribute("role", "tabpanel");
  node.setAttribute("aria-label", say("lines"));
  listen(table, act, signal);
  const lit = lights(model, table);
  const step = (by: 1 | -1): boolean => {
    const at = table.rows.findIndex((row) => row === document.activeElement);
    let next = at < 0 ? (by > 0 ? 0 : table.rows.length - 1) : at + by;
    while (table.rows[next] && table.rows[next].tabIndex < 0) next += by;
    table.rows[next]?.focus();
    return next >= 0 && next < table.rows.length;
  };
  const update = (state: State): void => {
    if (state.tab !== "lines") return;
    lit.update(state);
    told.textContent = words(model, state);
    table.when.textContent = isWhole(state) ? say("when") : say("when, in view");
  };
  return {
    ...{ node, step, update },
    paint(scale, layout, theme) {
      table.widths(layout);
      strips.paint(scale, layout, theme);
    },
  };
}

function listen(table: LineTable, act: (action: Action) => void, signal: AbortSignal): void {
  const rowOf = (event: Event): number => {
    const row = (event.target as Element).closest?.("tr");
    return row ? table.rows.indexOf(row) : -1;
  };
  const on = (kind: string, take: (event: Event) => void): void =>
    table.node.addEventListener(kind, take, { signal, capture: kind === "scroll" });
  on("pointerover", (event) => act({ do: "row", row: rowOf(event) }));
  on("pointerleave", () => act({ do: "row", row: table.rows.findIndex((row) => row.matches(":focus-visible")) }));
  on("focusin", (event) => act({ do: "row", row: rowOf(event) }));
  on("focusout", () => act({ do: "row", row: -1 }));
  on("click", (event) => {
    const row = rowOf(event);
    if (row >= 0) act({ do: "pin", row });
  });
  on("scroll", (event) => table.shift((event.target as Element).scrollLeft)); // all code moves as one
}

/** The classes of rows: the one that is described, its callers, the lines of its forward. */
function lights(model: Model, table: LineTable): { update(state: State): void } {
  let before: [number, string][] = [];
  const update = (state: State): void => {
    const now: [number, string][] = [];
    const op = tellingOp(model, state);
    const row = op ? -1 : tellingRow(model, state);
    if (row >= 0) now.push([row, "pm-told"]);
    if (op) {
      const stream = model.streams[op.stream];
      const [inner, ...callers] = model.lines!.rowsOf(stream.chain[op.row]);
      if (inner !== undefined) now.push([inner, "pm-told"], ...callers.map((r): [number, string] => [r, "pm-caller"]));
      now.push(...model.lines!.forwardOf(stream, op.row).map((r): [number, string] => [r, "pm-forward"]));
    }
    if (state.pinnedRow >= 0) now.push([state.pinnedRow, "pm-pinned"]);
    for (const [r, cls] of before) table.rows[r].classList.remove(cls);
    for (const [r, cls] of now) table.rows[r].classList.add(cls);
    before = now;
  };
  return { update };
}

function words(model: Model, state: State): string {
  const lines = model.lines!;
  const op = tellingOp(model, state);
  if (op) {
    const stream = model.streams[op.stream];
    const [launch, start, end] = [stream.launch[op.row], stream.start[op.row], stream.end[op.row]];
    const forward = lines.words(stream.forward[op.row]);
    return [
      say("{name} ran {time}", { name: shortName(model, stream.name[op.row]), time: duration(end - start) }),
      ...(stream.launchRow[op.row] >= 0 ? [say("launched {time} before", { time: duration(start - launch) })] : []),
      lines.words(stream.chain[op.row]) || say("no line known"),
      ...(forward ? [say("backward of {line}", { line: forward })] : []),
    ].join(" · ");
  }
  const row = tellingRow(model, state);
  if (row < 0) return say("Point at a line or at an op: each lights the other. Enter or a click pins a line.");
  const { python, blocked, device, backward, ops } = lines.column;
  const parts = [lines.place(row), say("Python {time}", { time: duration(python[row]) })];
  if (blocked[row]) parts.push(say("waiting {time}", { time: duration(blocked[row]) }));
  if (ops[row])
    parts.push(say("{ops}, {time} on the device", { ops: plural(ops[row], "op"), time: duration(device[row]) }));
  if (backward[row]) parts.push(say("its backward {time}", { time: duration(backward[row]) }));
  if (lines.wire.memory && lines.column.peak[row])
    parts.push(say("{size} at the peak", { size: size(lines.column.peak[row]) }));
  return parts.join(" · ");
}

function key(model: Model): HTMLElement {
  const node = el("div", "pm-linekey");
  for (const [token, said] of KEY) {
    if (token === "outline" && !model.lines!.column.backward.some((ns) => ns > 0)) continue;
    const patch = el("i", `pm-swatch pm-${token}`);
    if (token === "launch" || token === "comp") patch.style.background = `var(--pm-${token})`;
    node.append(el("span", "", patch, say(said)));
  }
  return node;
}

/** What the table leaves out, in words. */
function notes(model: Model): HTMLElement[] {
  const { wire } = model.lines!;
  const said = [...wire.notes];
  if (!wire.followed) said.unshift(say(FOLLOW));
  if (wire.folded.length) said.push(say("under 1 % each: {names}", { names: wire.folded.join(", ") }));
  const streams = streamsLeftOut(model);
  if (streams)
    said.push(
      say("{streams} than the strip shows: the timeline counts their ops", { streams: plural(streams, "more stream") }),
    );
  if (wire.grain_ns)
    said.push(say("Python's time is drawn without gaps below {time}", { time: duration(wire.grain_ns) }));
  const more = wire.blocks.reduce((sum, block) => sum + block.more, 0);
  if (more) said.push(say("{n} lines are not drawn: all are in .lines", { n: count(more) }));
  return said.map((sentence) => el("div", "pm-note", sentence));
}
