// What stands above the lanes: the first line, where the span went, the findings.
import { button, el, type Part, swatch } from "./dom.ts";
import { tabBar } from "./tabs.ts";
import { type Action, ALL_OF_PATH, isWhole, type State } from "../model/state.ts";
import type { Model } from "../model/store.ts";
import { totalsOf } from "../model/totals.ts";
import { count, duration, durationLike, percent, plural, size } from "../model/units.ts";
import type { FindingWire, ShareWire } from "../model/wire.ts";

type Do = (action: Action) => void;

export function summary(model: Model, act: Do, save: () => void, signal: AbortSignal): Part {
  const total = el("b");
  const words = el("span");
  const buttons = [
    button("fit", "show all (F)", () => act({ do: "fit" }), signal),
    button("save", "save the lanes as PNG", save, signal),
    button("?", "list all keys", () => act({ do: "help" }), signal),
  ];
  const tabs = tabBar(model, act, signal);
  const node = el("div", "pm-top", total, words, el("i", "pm-space"), ...buttons, tabs.node);
  let shown = "";
  const update = (state: State): void => {
    tabs.update(state);
    const key = state.view.join();
    if (key === shown) return;
    shown = key;
    total.textContent = duration(state.view[1] - state.view[0]);
    const parts = facts(model, state);
    words.replaceChildren(...parts.flatMap((part, i) => (i ? [el("u", "", "·"), ...part] : part)));
  };
  return { node, update };
}

function facts(model: Model, state: State): (Node | string)[][] {
  const { header } = model;
  const [from, to] = state.view;
  const whole = isWhole(state);
  const parts: (Node | string)[][] = [];
  if (!whole) {
    const range = `${durationLike(from, (to - from) / 100, model.span, false)} – ${durationLike(to, (to - from) / 100, model.span)}`;
    parts.push([`of ${duration(model.span)}, ${range}`]);
  }
  parts.push([header.device_label]);
  if (model.ranks.length) return parts;
  if (!header.n_ops) return [...parts, [plural(header.n_host_ops, "operator")]];
  const busy = whole ? header.busy_frac : totalsOf(model, state.view).busyFrac;
  const queue = whole ? header.queue_max : Math.max(0, ...model.streams.map((s) => s.pile.maxDepth(from, to)));
  if (whole) parts.push([plural(header.n_ops, "device op")]);
  parts.push([busyOf(model), el("em", "", percent(busy)), ` of ${whole ? header.busy_of : "what is shown"}`]);
  parts.push(["queue ≤ ", el("em", "", count(queue))]);
  const peak = Math.max(0, ...model.memory.map((lane) => lane.peak));
  if (whole && peak) parts.push(["peak ", el("em", "", size(peak))]);
  return parts;
}

/** What stands before a share of busy time: of several devices it is the busiest one's. */
export function busyOf(model: Model): string {
  return model.groups.length > 1 ? "busiest device busy " : "busy ";
}

/** One bar over the whole width: each instant of the device's extent once. */
export function shareBar(model: Model): HTMLElement[] {
  const shares = model.groups.length === 1 ? model.groups[0].wire.shares : [];
  return shares.length ? barOf(shares).nodes : [];
}

/** The bar of the critical path. What is pointed at, or has the keyboard's focus, is lit in the lanes. */
export function pathBar(model: Model, act: Do, signal: AbortSignal): Part {
  const node = el("div");
  const shares = model.header.path ?? [];
  if (!shares.length) return { node, update: () => undefined };
  const { nodes, parts, names } = barOf(shares);
  const title = el("span", "", "critical path");
  nodes[1].prepend(title);
  node.append(...nodes);
  if (!model.path) return { node, update: () => undefined };
  const lights = (one: HTMLElement, share: number): void => {
    const on = (): void => act({ do: "path", share });
    const off = (): void => act({ do: "path", share: -1 });
    for (const event of ["pointerenter", "focus"]) one.addEventListener(event, on, { signal });
    for (const event of ["pointerleave", "blur"]) one.addEventListener(event, off, { signal });
    one.classList.add("pm-lights");
    one.title = "where in time";
  };
  for (const [i, one] of [title, ...names].entries()) {
    lights(one, i ? i - 1 : ALL_OF_PATH);
    one.tabIndex = 0;
  }
  parts.forEach(lights);
  const update = (state: State): void => {
    for (const all of [parts, names])
      all.forEach((one, i) => one.classList.toggle("pm-off", state.path >= 0 && state.path !== i));
  };
  return { node, update };
}

/** A bar of shares, and below it the words; both in nodes. */
function barOf(shares: readonly ShareWire[]): { nodes: HTMLElement[]; parts: HTMLElement[]; names: HTMLElement[] } {
  const parts = shares.map((share) => {
    const part = swatch(share.token, "", share.second);
    part.style.flex = `${share.ns} 0 0`;
    return part;
  });
  const names = shares.map((share) =>
    el("span", "", swatch(share.token, "", share.second), el("b", "", duration(share.ns)), ` ${share.name}`),
  );
  return { nodes: [el("div", "pm-shares", ...parts), el("div", "pm-sharewords", ...names)], parts, names };
}

/** Findings that are shown; the others open. */
const AT_ONCE = 6;

export function findingList(model: Model, act: Do, signal: AbortSignal): Part {
  const { findings } = model.header;
  const node = el("div", findings.length ? "pm-findings" : "");
  const rows = findings.map((finding, i) => {
    const cost = el("span", finding.cost_ns === 0 ? "pm-cost pm-none" : "pm-cost", finding.cost);
    const lines: HTMLButtonElement[] = [];
    const said = el("span", "pm-said", el("b", "", finding.cause), ...linked(finding, act, signal, lines));
    const window = [finding.start_ns, Math.max(finding.end_ns, finding.start_ns + 1)] as const;
    const line = finding.lines.length === 1 ? finding.lines[0] : 0;
    const lane = finding.frame_lane;
    const thread = lane === undefined ? undefined : model.header.thread_lanes.length + lane;
    const show = button("show ▸", "", () => act({ do: "finding", number: i, window, line, thread }), signal, "pm-show");
    const row = el("div", finding.rule === "race" ? "pm-finding pm-alarm" : "pm-finding", cost, said, show);
    row.style.setProperty("--pm-depth", String(finding.depth));
    row.hidden = i >= AT_ONCE;
    if (finding.cost_ns) {
      const bar = el("s");
      bar.style.background = `var(--pm-${finding.token})`;
      bar.style.width = `calc((100% - 196px * var(--pm-font, 1)) * ${Math.min(1, finding.cost_ns / model.span)})`;
      row.append(bar);
    }
    node.append(row);
    return { row, show, lines };
  });
  if (findings.length > AT_ONCE) {
    const open = (): void => {
      for (const { row } of rows) row.hidden = false;
      more.remove();
    };
    const more = button(`${findings.length - AT_ONCE} more ▾`, "the other findings", open, signal, "pm-more");
    node.append(more);
  }
  const update = (state: State): void =>
    rows.forEach(({ row, show, lines }, i) => {
      row.classList.toggle("pm-on", state.shown === i);
      show.textContent = state.shown === i ? "hide ◂" : "show ▸";
      show.setAttribute("aria-label", `${state.shown === i ? "hide" : "show"}: ${findings[i].cause}`);
      for (const line of lines)
        line.classList.toggle("pm-on", state.line > 0 && line.dataset["line"] === String(state.line));
    });
  return { node, update };
}

/** The rest of a finding's sentence; the cell lines it names can be clicked, not those of functions. */
function linked(finding: FindingWire, act: Do, signal: AbortSignal, lines: HTMLButtonElement[]): (Node | string)[] {
  if (!finding.lines.length) return [finding.rest];
  const parts: (Node | string)[] = [];
  let at = 0;
  for (const match of finding.rest.matchAll(/\blines? \d+(?:(?:, | and )\d+)*(?!\d| of )/g)) {
    parts.push(finding.rest.slice(at, match.index));
    at = match.index + match[0].length;
    for (const piece of match[0].split(/(\d+)/)) {
      if (!/^\d+$/.test(piece) || !finding.lines.includes(Number(piece))) {
        parts.push(piece);
        continue;
      }
      const line = Number(piece);
      const node = button(piece, `mark the ops of line ${line}`, () => act({ do: "line", line }), signal, "pm-line");
      node.dataset["line"] = piece;
      lines.push(node);
      parts.push(node);
    }
  }
  return [...parts, finding.rest.slice(at)];
}
