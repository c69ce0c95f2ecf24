// The tabs at the right of the first line. A further tab is one more entry of TABS.
import { button, el, type Part } from "./dom.ts";
import { linesPanel } from "./lines_panel.ts";
import type { Panel } from "./panel.ts";
import { type Layout, layoutOf } from "../model/layout.ts";
import { linesLayout } from "../model/lines_layout.ts";
import type { Action, State } from "../model/state.ts";
import type { Model } from "../model/store.ts";
import { say, term } from "../model/words.ts";

export interface Tab {
  name: string;
  /** The key that opens it, and closes it again. */
  key: string;
  help: string;
  has(model: Model): boolean;
  layout(model: Model, state: State, width: number, fontShare: number): Layout;
  /** Of a tab that has more than lanes. */
  panel?(model: Model, act: (action: Action) => void, signal: AbortSignal): Panel;
}

export const TABS: Tab[] = [
  { name: term("timeline"), key: "", help: "", has: () => true, layout: layoutOf },
  {
    name: term("lines"),
    key: "l",
    help: term("lines and what each cost; again: back to the timeline"),
    has: (model) => model.lines !== null,
    layout: linesLayout,
    panel: linesPanel,
  },
];

export function tabOf(state: State): Tab {
  return TABS.find((tab) => tab.name === state.tab) ?? TABS[0];
}

/** The buttons; none where there is one tab only. */
export function tabBar(model: Model, act: (action: Action) => void, signal: AbortSignal): Part {
  const node = el("span", "pm-tabs");
  const tabs = TABS.filter((tab) => tab.has(model));
  if (tabs.length < 2) return { node, update: () => {} };
  node.setAttribute("role", "tablist");
  const buttons = tabs.map((tab) => {
    const words = tab.key ? `${say(tab.help)} (${tab.key.toUpperCase()})` : say("the lanes");
    const one = button(say(tab.name), words, () => act({ do: "tab", tab: tab.name }), signal);
    one.setAttribute("role", "tab");
    node.append(one);
    return one;
  });
  const update = (state: State): void =>
    tabs.forEach((tab, i) => buttons[i].setAttribute("aria-selected", String(tab.name === state.tab)));
  return { node, update };
}
