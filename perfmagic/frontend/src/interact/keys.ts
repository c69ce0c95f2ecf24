// What each key means. Keys that are not listed, and any with Ctrl, Alt or Meta, stay the notebook's.
import { TABS } from "./tabs.ts";
import { term } from "../model/words.ts";

export type Command =
  | "zoom in" | "zoom out" | "left" | "right" | "fit" | "search" | "back" | "forth" | "previous" | "next" | "open"
  | "next hit" | "previous hit" | "help" | "escape" | "row above" | "row below" | `tab ${string}`; // prettier-ignore

const KEYS: Record<string, Command> = {
  w: "zoom in",
  s: "zoom out",
  a: "left",
  d: "right",
  f: "fit",
  "/": "search",
  "[": "back",
  "]": "forth",
  ArrowLeft: "previous",
  ArrowRight: "next",
  Enter: "open",
  n: "next hit",
  N: "previous hit",
  "?": "help",
  Escape: "escape",
  ArrowUp: "row above",
  ArrowDown: "row below",
};

function meaning(key: string): Command | null {
  const tab = TABS.find((one) => one.key === key);
  return tab ? `tab ${tab.name}` : (KEYS[key] ?? null);
}

export interface Pressed {
  key: string;
  ctrlKey: boolean;
  altKey: boolean;
  metaKey: boolean;
  shiftKey: boolean;
}

/** The command of a key, null where the notebook should have it. */
export function commandOf(event: Pressed): Command | null {
  if (event.ctrlKey || event.altKey || event.metaKey) return null;
  const named = event.key.length > 1; // Enter, Escape, arrows: with Shift they are the notebook's
  if (named) return event.shiftKey ? null : meaning(event.key);
  return meaning(event.key) ?? (event.shiftKey ? null : meaning(event.key.toLowerCase()));
}

/** For the list that `?` shows. */
export const help = (): [string[], string][] => [
  [["W", "S"], term("zoom in, out")],
  [["A", "D"], term("pan left, right")],
  [["F"], term("fit all")],
  [["/"], term("search names, starting with the focused op's; Enter or N: next hit")],
  [["[", "]"], term("go from launch to op, and back")],
  [["←", "→"], term("previous, next slice in the lane")],
  [["Enter"], term("zoom to the slice; pin a line")],
  ...TABS.flatMap(({ key, help }): [string[], string][] => (key ? [[[key.toUpperCase()], help]] : [])),
  [["↑", "↓"], term("previous, next line")],
  [["Esc"], term("clear search, focus and selection, one at a time")],
  [[term("drag")], term("select a window; its totals appear below")],
  [[term("double click")], term("zoom to a slice, or to the selection")],
  [["Ctrl", term("wheel")], term("zoom at the pointer")],
  [["Shift", term("wheel")], term("pan")],
];
