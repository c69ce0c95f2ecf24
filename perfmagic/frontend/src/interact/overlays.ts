// What lies over the lanes for a while: the hover card, the search field, the list of keys.
import type { Details } from "./detail_rows.ts";
import { el, swatch } from "./dom.ts";
import { help } from "./keys.ts";
import type { Hits } from "../model/hits.ts";
import type { Layout } from "../model/layout.ts";
import type { Action, State } from "../model/state.ts";
import { duration, plural } from "../model/units.ts";
import { say } from "../model/words.ts";

const MOST_CARD_PX = 420;

/** The card of a slice, rebuilt for each. */
function card(details: Details): HTMLElement {
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

const CARD_APART_PX = 24; // from the pointer, to either side

/** The card of what is pointed at: over the plot, never over the numbers, and away from the pointer. */
export class HoverCard {
  private node: HTMLElement | null = null;

  /** body: the element around the lanes; the card may reach over what stands above and below it. */
  constructor(private readonly body: HTMLElement) {}

  hide(): void {
    this.node?.remove();
    this.node = null;
  }

  /** x, y: where it is pointed at, CSS pixels of the plot. */
  show(details: Details, x: number, y: number, { left, plot }: Layout): void {
    this.hide();
    const { body } = this;
    const node = (this.node = card(details));
    node.style.maxWidth = `${Math.min(MOST_CARD_PX, body.clientWidth)}px`;
    body.append(node);
    const beside =
      x + CARD_APART_PX + node.offsetWidth <= plot ? x + CARD_APART_PX : x - CARD_APART_PX - node.offsetWidth;
    const above = -body.offsetTop;
    const below = (body.offsetParent?.clientHeight ?? body.clientHeight) - body.offsetTop - node.offsetHeight;
    node.style.left = `${Math.max(0, Math.min(left + beside, body.clientWidth - node.offsetWidth))}px`;
    node.style.top = `${Math.max(above, Math.min(below, y + 20))}px`;
  }
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
    this.input.placeholder = say("name of a kernel or operator");
    this.input.setAttribute("aria-label", say("search names"));
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
    this.found.textContent = hits?.names ? `${plural(hits.count, "hit")}, ${duration(hits.ns)}` : "";
  }
}

export function helpBox(): HTMLElement {
  const node = el("div", "pm-help");
  for (const [keys, words] of help())
    node.append(el("span", "", ...keys.map((k) => el("kbd", "", say(k)))), el("span", "", say(words)));
  return node;
}
