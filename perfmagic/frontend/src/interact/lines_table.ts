// The table of lines: number, code, room for the strip, and columns of numbers with a bar behind each.
import { el } from "./dom.ts";
import type { Layout } from "../model/layout.ts";
import { lineColumns, NUMBER_PX } from "../model/lines_layout.ts";
import type { Model } from "../model/store.ts";
import { count, plural, significant, size } from "../model/units.ts";
import { say } from "../model/words.ts";

const NEXT_TO_NOTHING = 0.0002; // of the span: a dot instead of meaningless digits
const RED_FROM = 0.1; // of the longest time: a line that waits so long is tinted

export interface LineTable {
  node: HTMLTableElement;
  /** The rows of lines, as in the model. */
  rows: HTMLTableRowElement[];
  /** The heading of the strips. */
  when: HTMLElement;
  widths(layout: Layout): void;
  /** Scrolls all code sideways. */
  shift(px: number): void;
}

export function lineTable(model: Model): LineTable {
  const lines = model.lines!;
  const { column, wire, codes } = lines;
  const columns = lineColumns(model);
  const times = columns.flatMap(({ of }) => (of === "ops" || of === "peak" ? [] : [...column[of]]));
  const most = times.reduce((a, b) => Math.max(a, b), 1);
  const mostBytes = wire.memory ? column.peak.reduce((a, b) => Math.max(a, b), 1) : 1;
  const [unit, factor] = unitOf(most);
  const timeWords = (ns: number): string =>
    ns === 0 ? "" : ns < NEXT_TO_NOTHING * model.span ? "·" : significant(ns / factor);

  const cols = ["", "", "", ...columns].map(() => el("col"));
  const when = heading("when");
  const whole = heading(
    model.header.from_cell ? say("whole cell, {unit}", { unit }) : say("whole recording, {unit}", { unit }),
  );
  whole.colSpan = columns.length - (wire.memory ? 1 : 0); // bytes stand under no unit of time
  whole.scope = "colgroup";
  const empty = el("td");
  empty.colSpan = 3;
  const head = el(
    "thead",
    "",
    el("tr", "", empty, whole, ...(wire.memory ? [el("td")] : [])),
    el("tr", "", heading("line"), heading("code"), when, ...columns.map(({ name }) => heading(name))),
  );
  const node = el("table", "", el("colgroup", "", ...cols), head);

  const rows: HTMLTableRowElement[] = [];
  const texts: HTMLElement[] = [];
  for (const block of wire.blocks) {
    const body = el("tbody");
    if (block.name) body.append(titleRow(block.name, block.where, cols.length));
    for (let i = 0; i < block.rows; i++) body.append(lineRow(rows.length));
    if (block.more)
      body.append(titleRow("", say("and {rest}", { rest: plural(block.more, "more line") }), cols.length));
    if (!block.name && wire.total) body.append(totalRow(wire.total));
    if (!block.name && wire.total && wire.memory) body.append(...wire.memory[1].map(closingRow));
    node.append(body);
  }

  function lineRow(r: number): HTMLElement {
    const number = el("th", "", String(column.line[r]));
    number.scope = "row";
    const text = el("div", "pm-code", codes[r].replace(/\t/g, "    "));
    text.title = codes[r];
    texts.push(text);
    const row = el("tr", column.ran[r] ? "pm-ran" : "", number, el("td", "", text), el("td"));
    for (const { of } of columns) row.append(of === "ops" || of === "peak" ? amountCell(of, r) : timeCell(of, r));
    if (column.ran[r]) row.tabIndex = 0;
    row.classList.toggle("pm-waits", column.blocked[r] > RED_FROM * most);
    rows.push(row);
    return row;
  }

  function amountCell(of: "ops" | "peak", r: number): HTMLElement {
    if (of === "ops") return el("td", "", countWords(column.ops[r]));
    if (!column.peak[r]) return el("td");
    const bar = el("i", "pm-peakbar");
    bar.style.width = `${Math.max(1, (column.peak[r] / mostBytes) * 40)}%`;
    return el("td", "", bar, el("span", "", size(column.peak[r])));
  }

  function timeCell(of: "python" | "blocked" | "device" | "backward", r: number): HTMLElement {
    const ns = column[of][r];
    if (!ns) return el("td");
    const bar = el("i", `pm-${of}bar`);
    bar.style.width = `${Math.max(1, (ns / most) * 56)}%`;
    return el("td", "", bar, el("span", "", timeWords(ns)));
  }

  function totalRow([python, blocked, device, ops]: [number, number, number, number]): HTMLElement {
    const said = el("td", "", say("every op counts once; a line counts what it called"));
    said.colSpan = 2;
    const sums = { python, blocked, device, backward: 0, ops };
    const wordsOf = (of: (typeof columns)[number]["of"]): string =>
      of === "peak" ? size(wire.memory![0]) : of === "ops" ? countWords(ops) : timeWords(sums[of]);
    const cells = columns.map(({ of }) => el("td", "", wordsOf(of)));
    return el("tr", "pm-total", el("td"), said, ...cells);
  }

  /** What the column of memory lacks to the peak. */
  function closingRow([words, bytes]: [string, number]): HTMLElement {
    const said = el("td", "", words);
    said.colSpan = columns.length - 1;
    return el("tr", "pm-total", el("td"), el("td"), el("td"), said, el("td", "", size(bytes)));
  }

  return {
    ...{ node, rows, when },
    widths(layout) {
      const px = [NUMBER_PX, layout.left - NUMBER_PX, layout.plot, ...columns.map((one) => one.px)];
      px.forEach((width, i) => (cols[i].style.width = `${width}px`));
      node.style.width = `${layout.width}px`;
    },
    shift(px) {
      for (const text of texts) if (text.scrollLeft !== px) text.scrollLeft = px;
    },
  };
}

function heading(words: string): HTMLTableCellElement {
  const node = el("th", "", say(words));
  node.scope = "col";
  return node;
}

function titleRow(name: string, words: string, across: number): HTMLElement {
  const cell = name ? el("th", "", el("b", "", name), words) : el("td", "", words);
  cell.colSpan = across;
  if (name) cell.scope = "rowgroup";
  return el("tr", "pm-function", cell);
}

function countWords(n: number): string {
  return n ? count(n) : "";
}

/** The unit of all times of the table, by the longest. */
function unitOf(ns: number): [string, number] {
  const units: [string, number][] = [
    ["s", 1e9],
    ["ms", 1e6],
    ["µs", 1e3],
  ];
  return units.find(([, factor]) => ns >= factor) ?? ["ns", 1];
}
