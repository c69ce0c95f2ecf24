// What stands below the lanes: totals of the selection, the key, and how far the record can be believed.
import { button, el, type Part, swatch } from "./dom.ts";
import { busyOf } from "./head.ts";
import { KEY_CLASSES } from "../model/classes.ts";
import type { Action, State } from "../model/state.ts";
import type { Window } from "../model/scale.ts";
import type { Model } from "../model/store.ts";
import { type Totals, totalsOf } from "../model/totals.ts";
import { count, duration, durationLike } from "../model/units.ts";
import { say, term } from "../model/words.ts";

/** What is shown beside the totals. */
export const COLUMNS: ((model: Model, window: Window) => HTMLElement)[] = [];

export function selectionPanel(model: Model): Part {
  const node = el("div", "pm-panel");
  node.hidden = true;
  let shown = "";
  const update = (state: State): void => {
    const { selection } = state;
    node.hidden = !selection;
    node.style.display = selection ? "" : "none";
    const key = `${selection?.join()} ${state.off}`;
    if (!selection || key === shown) return;
    shown = key;
    const totals = totalsOf(model, selection, state.off);
    const columns = [summary(model, totals)];
    for (const column of model.ranks.length ? COLUMNS : []) columns.push(column(model, selection));
    if (totals.parts.length) columns.push(device(totals));
    if (totals.names.length) columns.push(names(totals));
    if (totals.lines.length) columns.push(lines(totals));
    node.replaceChildren(...columns);
  };
  return { node, update };
}

function summary(model: Model, totals: Totals): HTMLElement {
  const [from, to] = totals.window;
  const resolution = Math.max(1, (to - from) / 100);
  const range = `${durationLike(from, resolution, model.span, false)} – ${durationLike(to, resolution, model.span)}`;
  const node = el(
    "div",
    "",
    el("h2", "", say("selected")),
    el("div", "pm-big", duration(to - from)),
    el("div", "", range),
  );
  if (!model.streams.length) return node;
  node.append(el("div", "", say("{busy} of the selection", { busy: busyOf(model, totals.busyFrac) })));
  if (totals.runAhead) {
    node.append(el("div", "", say("run-ahead {range}", { range: totals.runAhead.map(duration).join(" – ") })));
  }
  node.append(el("div", "", say("launched {n}, started {m}", { n: count(totals.launched), m: count(totals.started) })));
  return node;
}

/** The cells of one row: name, bar, value and what else is said. */
export function row(name: string, token: string, share: number, value: string, more: string): HTMLElement[] {
  const bar = swatch(token, "pm-bar");
  bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  const title = el("span", "", name);
  title.title = name;
  return [title, el("span", "", bar), el("span", "pm-value", value), el("span", "pm-more", more)];
}

function device(totals: Totals): HTMLElement {
  const length = totals.window[1] - totals.window[0];
  const rows = totals.parts.flatMap((part) => {
    const exposed =
      part.exposed >= 0 ? say("{time} exposed", { time: part.exposed ? duration(part.exposed) : "0" }) : "";
    return row(say(part.name), part.token, part.ns / length, duration(part.ns), exposed);
  });
  return el("div", "pm-rows", el("h2", "", say("device")), ...rows);
}

function names(totals: Totals): HTMLElement {
  const most = Math.max(1, totals.names[0].ns);
  const rows = totals.names.flatMap((n) => row(n.name, n.token, n.ns / most, duration(n.ns), `×${count(n.count)}`));
  return el("div", "pm-rows", el("h2", "", say("most time")), ...rows);
}

function lines(totals: Totals): HTMLElement {
  const length = totals.window[1] - totals.window[0];
  const rows = totals.lines.flatMap((l) =>
    row(
      say("line {line}", { line: l.line }),
      l.blocked > l.ns / 2 ? "wait" : "launch",
      l.ns / length,
      duration(l.ns),
      l.blocked ? say("{time} blocked", { time: duration(l.blocked) }) : "",
    ),
  );
  return el("div", "pm-rows", el("h2", "", say("Python meanwhile")), ...rows);
}

const ONE_RANK: [string[], string][] = [[[term("click")], term("open a rank")]];
const ONE_TIMELINE: [string[], string][] = [
  [["[", "]"], term("launch ↔ op")],
  [["/"], term("search")],
];

/** What the colours mean; each class can be switched off. */
export function colourKey(model: Model, act: (action: Action) => void, signal: AbortSignal): Part {
  const present = new Set(model.streams.flatMap((s) => s.tracks.flatMap((t) => t.classes)));
  const node = el("div", "pm-key");
  const switches = KEY_CLASSES.filter((key) => key.classes.some((c) => present.has(c))).map((key) => {
    const toggle = button("", say("show or fade these ops"), () => act({ do: "class", cls: key.classes }), signal, "");
    toggle.append(swatch(key.token), say(key.words));
    node.append(toggle);
    return { toggle, key };
  });
  if (model.streams.some((s) => s.wire.queue_max)) {
    node.append(
      el("span", "", el("i", "pm-swatch pm-queued"), say("queued")),
      el("span", "", el("i", "pm-swatch pm-held"), say("queued, stream idle")),
    );
  }
  const several = model.ranks.length > 0;
  for (const [token, words] of model.header.key ?? []) {
    const own = /blocked|beside|last|idle|^$/.test(token); // drawn by the style sheet, not in one colour
    node.append(el("span", "", own ? el("i", token && `pm-swatch pm-${token}`) : swatch(token), words));
  }
  if (model.blocked?.lost.start.length) node.append(el("span", "", swatch("wait"), say("Python blocked")));
  if (model.blocked?.besideWork.some(Boolean))
    node.append(el("span", "", swatch("ink3"), say("Python blocked, device busy")));
  if (!several && model.streams.length) node.append(el("span", "", swatch("idle"), say("device idle")));
  const keys = el("span", "pm-hints");
  node.append(keys);
  const hints: [string[], string][] = [
    [["W", "S"], term("zoom")],
    [["A", "D"], term("pan")],
    ...(several ? ONE_RANK : ONE_TIMELINE),
    [["?"], term("all keys")],
  ];
  for (const [names, words] of hints)
    keys.append(el("span", "", ...names.map((k) => el("kbd", "", say(k))), say(words)));
  const update = (state: State): void => {
    for (const { toggle, key } of switches) {
      const off = key.classes.some((c) => state.off & (1 << c));
      toggle.classList.toggle("pm-off", off);
      toggle.setAttribute("aria-pressed", String(!off));
    }
  };
  return { node, update };
}

/** How far the record can be believed: the first sentence in one line, all of them when it is clicked. */
export function finePrint(model: Model): HTMLElement {
  const { trust } = model.header;
  if (!trust.length) return el("div");
  const more =
    trust.length > 1 ? el("span", "pm-unfold", ` · ${say("{n} more", { n: count(trust.length - 1) })} ▸`) : "";
  const first = el("summary", "", el("span", "", trust[0]), more);
  return el("details", "pm-fine", first, ...trust.slice(1).map((sentence) => el("div", "", sentence)));
}
