// What each key means. Keys that are not listed, and any with Ctrl, Alt or Meta, stay the notebook's.
import { TABS } from "./tabs.ts";

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
for (const { name, key } of TABS) if (key) KEYS[key] = `tab ${name}`;

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
  if (named) return event.shiftKey ? null : (KEYS[event.key] ?? null);
  return KEYS[event.key] ?? (event.shiftKey ? null : (KEYS[event.key.toLowerCase()] ?? null));
}

/** For the list that `?` shows. */
export const HELP: readonly (readonly [string[], string])[] = [
  [["W", "S"], "zoom in, out"],
  [["A", "D"], "pan left, right"],
  [["F"], "fit all"],
  [["/"], "search names, starting with the focused op's; Enter or N: next hit"],
  [["[", "]"], "go from launch to op, and back"],
  [["←", "→"], "previous, next slice in the lane"],
  [["Enter"], "zoom to the slice; pin a line"],
  ...TABS.flatMap(({ key, help }): [string[], string][] => (key ? [[[key.toUpperCase()], help]] : [])),
  [["↑", "↓"], "previous, next line"],
  [["Esc"], "clear search, focus and selection, one at a time"],
  [["drag"], "select a window; its totals appear below"],
  [["double click"], "zoom to a slice, or to the selection"],
  [["Ctrl", "wheel"], "zoom at the pointer"],
  [["Shift", "wheel"], "pan"],
];
