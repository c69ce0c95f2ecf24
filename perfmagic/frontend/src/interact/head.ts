// The first lines of a view, and the bars of where the span went.
import { button, el, type Part, swatch } from "./dom.ts";
import { tabBar } from "./tabs.ts";
import type { Window } from "../model/scale.ts";
import { type Action, ALL_OF_PATH, isWhole, type State } from "../model/state.ts";
import type { Model } from "../model/store.ts";
import { busyFrac } from "../model/totals.ts";
import { count, duration, durationLike, percent } from "../model/units.ts";
import type { ShareWire } from "../model/wire.ts";
import { say } from "../model/words.ts";

type Do = (action: Action) => void;

/** The whole time and who decides it; below, what was recorded, or how that is in the window that is shown. */
export function summary(model: Model, act: Do, save: () => void, signal: AbortSignal): Part {
  const { answers } = model.header;
  const seen = el("b", "pm-seen");
  const words = el("span");
  const buttons = [
    button(say("fit"), say("show all (F)"), () => act({ do: "fit" }), signal),
    button(say("save"), say("save the lanes as PNG"), save, signal),
    button("?", say("list all keys"), () => act({ do: "help" }), signal),
  ];
  const tabs = tabBar(model, act, signal);
  const about = el("div", "pm-about", seen, words);
  const who = answers
    ? [
        el("b", "", (model.header.at_least ? "≥ " : "") + duration(model.span)),
        el("span", "", el("b", "", answers.decides[0]), answers.decides[1]),
      ]
    : [about];
  const top = el("div", "pm-top", ...who, el("i", "pm-space"), ...buttons, tabs.node);
  const node = el("div", "", top, ...(answers ? [about] : []));
  const update = (state: State): void => {
    tabs.update(state);
    seen.textContent = duration(state.view[1] - state.view[0]);
    const { about, view, shown } = model.header;
    const first = `${view}` === `${state.view}` && shown;
    seen.hidden = answers !== null && (isWhole(state) || !!first);
    words.textContent = isWhole(state) ? about : first || shownOf(model, state.view);
  };
  return { node, update };
}

function shownOf(model: Model, [from, to]: Window): string {
  const step = (to - from) / 100;
  const range = `${durationLike(from, step, model.span, false)} – ${durationLike(to, step, model.span)}`;
  const parts = [say("of {time}, {range}", { time: duration(model.span), range }), model.header.device_label];
  if (model.streams.length) {
    const queue = Math.max(...model.streams.map((s) => s.pile.maxDepth(from, to)));
    const busy = busyOf(model, busyFrac(model, [from, to]));
    parts.push(say("{busy} of what is shown", { busy }), say("queue ≤ {n}", { n: count(queue) }));
  }
  return parts.join(" · ");
}

/** A share of busy time: of several devices it is the busiest one's. */
export function busyOf(model: Model, fraction: number): string {
  const share = percent(fraction);
  return model.groups.length > 1 ? say("busiest device busy {share}", { share }) : say("busy {share}", { share });
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
  const title = el("span", "", say("critical path"));
  nodes[1].prepend(title);
  node.append(...nodes);
  if (!model.path) return { node, update: () => undefined };
  const lights = (one: HTMLElement, share: number): void => {
    const on = (): void => act({ do: "path", share });
    const off = (): void => act({ do: "path", share: -1 });
    for (const event of ["pointerenter", "focus"]) one.addEventListener(event, on, { signal });
    for (const event of ["pointerleave", "blur"]) one.addEventListener(event, off, { signal });
    one.classList.add("pm-lights");
    one.title = say("where in time");
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
