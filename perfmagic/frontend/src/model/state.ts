// What a person did to the view, and nothing else. Reducers are pure; two views of one model have two states.
import { held, type Window, zoomed } from "./scale.ts";
import type { Ref } from "./store.ts";

export interface State {
  readonly whole: Window;
  readonly view: Window;
  readonly selection: Window | null;
  readonly hover: Ref | null;
  readonly focus: Ref | null;
  /** Searched text; hits keep their colour. */
  readonly query: string;
  readonly searching: boolean;
  /** The cell line whose work is marked, 0 for none. */
  readonly line: number;
  /** The finding that is shown, -1 for none. */
  readonly shown: number;
  /** Classes switched off in the key, one bit each. */
  readonly off: number;
  readonly help: boolean;
  /** Threads all of whose levels are drawn. */
  readonly open: readonly number[];
  /** The thread that the shown finding has unfolded, -1 for none; it is folded again with the finding. */
  readonly unfolded: number;
  /** How many streams of each device are drawn. */
  readonly streams: number;
  /** Ranks whose own lanes are shown, rows of the model's ranks. */
  readonly ranks: readonly number[];
  /** What of the critical path is lit: a row of the header's path, ALL_OF_PATH, or -1 for nothing. */
  readonly path: number;
  /** Whether the flame graph of the selection is open. */
  readonly flame: boolean;
  /** Which tab is open. */
  readonly tab: string;
  /** Of the lines tab: the row that is pointed at or has the keyboard's focus, and the pinned one; -1 for none. */
  readonly lineRow: number;
  readonly pinnedRow: number;
}

export const FIRST_STREAMS = 16;
export const ALL_OF_PATH = -2;

export type Action =
  | { do: "look"; view: Window }
  | { do: "zoom"; factor: number; around?: number }
  | { do: "pan"; share: number }
  | { do: "fit" }
  | { do: "select"; window: Window | null }
  | { do: "hover"; ref: Ref | null }
  | { do: "focus"; ref: Ref | null; show?: Window }
  | { do: "search"; query: string }
  | { do: "searching"; on: boolean }
  | { do: "line"; line: number }
  | { do: "finding"; number: number; window: Window; line: number; thread?: number | undefined }
  | { do: "class"; cls: readonly number[] }
  | { do: "help" }
  | { do: "thread"; thread: number }
  | { do: "more" }
  | { do: "rank"; rank: number }
  | { do: "path"; share: number }
  | { do: "flame" }
  | { do: "tab"; tab: string }
  | { do: "row"; row: number }
  | { do: "pin"; row: number }
  | { do: "escape" };

export function initial(span: number, view?: Window): State {
  const whole: Window = [0, span];
  return {
    ...{ whole, view: view ?? whole, selection: null, hover: null, focus: null, query: "", searching: false },
    ...{ line: 0, shown: -1, off: 0, help: false, open: [], unfolded: -1, streams: FIRST_STREAMS, ranks: [] },
    ...{ path: -1, flame: false, tab: "timeline", lineRow: -1, pinnedRow: -1 },
  };
}

export function reduce(state: State, action: Action): State {
  switch (action.do) {
    case "look":
      return looking(state, held(action.view, state.whole));
    case "zoom": {
      const around = action.around ?? (state.view[0] + state.view[1]) / 2;
      return looking(state, zoomed(state.view, action.factor, around, state.whole));
    }
    case "pan": {
      const by = (state.view[1] - state.view[0]) * action.share;
      return looking(state, held([state.view[0] + by, state.view[1] + by], state.whole));
    }
    case "fit":
      return looking(state, state.whole);
    case "select":
      return { ...state, selection: action.window && ordered(action.window, state.whole) };
    case "hover":
      return same(state.hover, action.ref) ? state : { ...state, hover: action.ref };
    case "focus":
      return { ...state, focus: action.ref, view: action.show ? held(action.show, state.whole) : state.view };
    case "search":
      return { ...state, query: action.query, line: 0 };
    case "searching":
      return { ...state, searching: action.on, help: false };
    case "line":
      return { ...state, line: state.line === action.line ? 0 : action.line, query: "", searching: false };
    case "finding":
      return finding(state, action.number, action.window, action.line, action.thread ?? -1);
    case "class": {
      const bits = action.cls.reduce((all, c) => all | (1 << c), 0);
      return { ...state, off: state.off & bits ? state.off & ~bits : state.off | bits };
    }
    case "help":
      return { ...state, help: !state.help };
    case "thread":
      return { ...state, open: toggled(state.open, action.thread), unfolded: -1 };
    case "rank":
      return { ...state, ranks: toggled(state.ranks, action.rank) };
    case "path":
      return state.path === action.share ? state : { ...state, path: action.share };
    case "flame":
      return { ...state, flame: !state.flame };
    case "tab":
      return state.tab === action.tab ? state : { ...state, tab: action.tab, hover: null, lineRow: -1, help: false };
    case "row":
      return state.lineRow === action.row ? state : { ...state, lineRow: action.row };
    case "pin":
      return { ...state, pinnedRow: state.pinnedRow === action.row ? -1 : action.row };
    case "more":
      return { ...state, streams: state.streams * 4 };
    case "escape":
      return escaped(state);
  }
}

function toggled(all: readonly number[], one: number): readonly number[] {
  return all.includes(one) ? all.filter((other) => other !== one) : [...all, one];
}

/** One thing after the other: help, search, what is marked, the focus, the selection. */
function escaped(state: State): State {
  if (state.help) return { ...state, help: false };
  if (state.searching || state.query) return { ...state, searching: false, query: "" };
  if (state.pinnedRow >= 0) return { ...state, pinnedRow: -1 };
  if (state.line) return { ...state, line: 0 };
  if (state.focus) return { ...state, focus: null };
  if (!state.selection && state.shown < 0) return state;
  return { ...refolded(state), selection: null, shown: -1 };
}

/** Without what the finding that was shown has unfolded. */
function refolded(state: State): State {
  return { ...state, open: state.open.filter((thread) => thread !== state.unfolded), unfolded: -1 };
}

/** Its window; where it speaks of one cell line, what that line queued; where of Python frames, all their levels. */
function finding(before: State, number: number, window: Window, line: number, thread: number): State {
  const state = refolded(before);
  if (state.shown === number) return { ...state, shown: -1, selection: null, view: state.whole, line: 0 };
  const selection = ordered(window, state.whole);
  const margin = (selection[1] - selection[0]) * 0.06;
  const view = held([selection[0] - margin, selection[1] + margin], state.whole);
  const unfolded = thread < 0 || state.open.includes(thread) ? -1 : thread;
  const open = unfolded < 0 ? state.open : [...state.open, unfolded];
  return { ...state, shown: number, selection, view, line, open, unfolded, query: "", searching: false };
}

function looking(state: State, view: Window): State {
  return view[0] === state.view[0] && view[1] === state.view[1] ? state : { ...state, view, hover: null };
}

function ordered(window: Window, whole: Window): Window {
  const from = Math.max(whole[0], Math.min(window[0], window[1]));
  return [from, Math.max(from, Math.min(whole[1], Math.max(window[0], window[1])))];
}

export function same(a: Ref | null, b: Ref | null): boolean {
  return a === b || (a !== null && b !== null && JSON.stringify(a) === JSON.stringify(b));
}

export function isWhole(state: State): boolean {
  return state.view[0] === state.whole[0] && state.view[1] === state.whole[1];
}
