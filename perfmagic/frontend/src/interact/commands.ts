// What each command does to a view.
import type { Command } from "./keys.ts";
import { type Tab, TABS } from "./tabs.ts";
import { beside, closeUp, nextHit, spanOf, walk } from "./walk.ts";
import type { Hits } from "../model/hits.ts";
import type { Action, State } from "../model/state.ts";
import { shortName, type Model, type Ref } from "../model/store.ts";

const ZOOM_FACTOR = 1.6;
const PAN_SHARE = 0.25;

/** What commands act on. */
export interface Commanded {
  readonly model: Model;
  readonly state: State;
  readonly hits: Hits | null;
  /** The instant under the pointer, null while it is elsewhere. */
  readonly pointer: number | null;
  act(action: Action): void;
  /** To the next or previous row of a tab's table. */
  step(by: 1 | -1): boolean;
  focusOn(ref: Ref | null): void;
}

/** Obeys a command. Returns false where there was nothing to do. */
export function obey(view: Commanded, command: Command): boolean {
  const { model, state } = view;
  const tab = TABS.find((one) => command === `tab ${one.name}`);
  if (tab) return turnTo(view, tab);
  switch (command) {
    case "row above":
    case "row below":
      return view.step(command === "row below" ? 1 : -1);
    case "zoom in":
      view.act({ do: "zoom", factor: 1 / ZOOM_FACTOR, around: around(view) });
      return true;
    case "zoom out":
      view.act({ do: "zoom", factor: ZOOM_FACTOR, around: around(view) });
      return true;
    case "left":
    case "right":
      view.act({ do: "pan", share: command === "left" ? -PAN_SHARE : PAN_SHARE });
      return true;
    case "back":
    case "forth":
      view.focusOn(walk(model, state.focus, command === "forth", state.view));
      return true;
    case "previous":
    case "next":
      view.focusOn(beside(model, state.focus, command === "next" ? 1 : -1, state.view));
      return true;
    case "next hit":
    case "previous hit":
      return toHit(view, command === "next hit" ? 1 : -1);
    case "search":
      return search(view);
    case "open":
      return open(view);
    case "fit":
    case "help":
      view.act({ do: command });
      return true;
    case "escape":
      view.act({ do: "escape" });
      return view.state !== state;
  }
  return false;
}

/** Opens a tab, or goes back from it to the first. */
function turnTo(view: Commanded, tab: Tab): boolean {
  if (!tab.has(view.model)) return false;
  view.act({ do: "tab", tab: view.state.tab === tab.name ? TABS[0].name : tab.name });
  return true;
}

function around({ pointer, state }: Commanded): number {
  return pointer ?? (state.view[0] + state.view[1]) / 2;
}

/** Focuses the next or previous hit of a search. */
export function toHit(view: Commanded, by: 1 | -1): boolean {
  if (!view.hits) return false;
  view.focusOn(nextHit(view.model, view.hits, view.state.focus, by, view.state.view));
  return true;
}

/** Opens the search field, with the name of the op that has the focus. */
function search(view: Commanded): boolean {
  const { focus, query } = view.state;
  if (focus?.kind === "op" && !query) {
    const name = shortName(view.model, view.model.streams[focus.stream].name[focus.row]);
    view.act({ do: "search", query: name });
  }
  view.act({ do: "searching", on: true });
  return true;
}

/** Zooms to the slice that has the focus, else to the selection. */
function open(view: Commanded): boolean {
  const { focus, selection, lineRow } = view.state;
  if (lineRow >= 0) {
    view.act({ do: "pin", row: lineRow });
    return true;
  }
  if (focus) view.act({ do: "look", view: closeUp(spanOf(view.model, focus)) });
  else if (selection) view.act({ do: "look", view: selection });
  return focus !== null || selection !== null;
}
