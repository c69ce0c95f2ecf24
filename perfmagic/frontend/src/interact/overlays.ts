// What lies over the lanes for a while: the hover card, the search field, the list of keys.
import { el, swatch } from "./dom.ts";
import type { Details } from "./details.ts";
import type { Hits } from "../model/hits.ts";
import { HELP } from "./keys.ts";
import type { Action, State } from "../model/state.ts";
import { count, duration } from "../model/units.ts";

export const CARD_PX = 300;

/** The card of a slice, built anew for each. */
export function card(details: Details): HTMLElement {
  const chip = swatch(details.token, "");
  const node = el("div", "pm-card", el("h3", "", chip, details.title));
  if (details.full) node.append(el("div", "pm-full", details.full));
  const whole = details.life.reduce((sum, [, ns]) => sum + ns, 0);
  if (details.life.length > 1 && whole > 0) {
    const life = el("div", "pm-life");
    for (const [token, ns] of details.life) {
      if (ns <= 0) continue;
      const part = lifePart(token);
      part.style.flex = `${ns} 0 0`;
      life.append(part);
    }
    node.append(life);
  }
  const list = el("dl");
  for (const row of details.rows) list.append(el("dt", "", row.name), el("dd", "", row.value), el("dd", "", row.note));
  node.append(list);
  if (details.foot) node.append(el("div", "pm-foot", details.foot));
  return node;
}

function lifePart(token: string): HTMLElement {
  const [kind, colour] = token.includes(" ") ? token.split(" ") : ["", token];
  const node = swatch(colour, "");
  if (kind)
    node.style.background = `color-mix(in srgb, var(--pm-${colour}) ${kind === "held" ? 20 : 36}%, var(--pm-ground))`;
  return node;
}

/** The field that `/` opens, with the number of hits and their time. */
export class Search {
  readonly node: HTMLElement;
  private readonly input: HTMLInputElement;
  private readonly found = el("span");

  constructor(act: (action: Action) => void, next: (by: 1 | -1) => void, signal: AbortSignal) {
    this.input = el("input");
    this.input.type = "search";
    this.input.placeholder = "name of a kernel or operator";
    this.input.setAttribute("aria-label", "search names");
    this.node = el("div", "pm-find", this.input, this.found);
    this.node.style.display = "none";
    this.input.addEventListener("input", () => act({ do: "search", query: this.input.value }), { signal });
    this.input.addEventListener(
      "keydown",
      (event) => {
        if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
        else if (event.key === "Escape") act({ do: "escape" });
        else {
          event.stopPropagation(); // letters belong to the field, neither to the lanes nor to the notebook
          return;
        }
        event.preventDefault();
        event.stopPropagation();
      },
      { signal },
    );
  }

  update(state: State, hits: Hits | null): void {
    const was = this.node.style.display !== "none";
    const on = state.searching || state.query !== "";
    this.node.style.display = on ? "" : "none";
    if (this.input.value !== state.query) this.input.value = state.query;
    if (state.searching && !was) this.input.focus({ preventScroll: true });
    this.found.textContent = hits?.names
      ? `${count(hits.count)} ${hits.count === 1 ? "hit" : "hits"}, ${duration(hits.ns)}`
      : "";
  }
}

export function helpBox(): HTMLElement {
  const node = el("div", "pm-help");
  for (const [keys, words] of HELP)
    node.append(el("span", "", ...keys.map((k) => el("kbd", "", k))), el("span", "", words));
  return node;
}
