// Where Python was in the selection: a flame graph for each thread, below the totals.
import { button, el, type Part, swatch } from "./dom.ts";
import type { Command } from "./keys.ts";
import { type FlamePath, innermostOfAll } from "../model/flame.ts";
import type { Action, State } from "../model/state.ts";
import type { Model } from "../model/store.ts";
import { count, duration, percent, plural } from "../model/units.ts";
import { say, term } from "../model/words.ts";

const ROW_PX = 16;
const LEAST_SHARE = 0.002; // of the width: narrower paths are drawn as one
const NAMED_SHARE = 0.03;
const MOST_THREADS = 6;
const MOST_CRUMBS = 4;
const BOX = "[role=treeitem]";
const FOLDER = /\([^()]*[\\/](?=[^()\\/]*:\d+\))/; // of "step (/home/me/train.py:12)"
const HINT = term(
  "Callers stand above what they called. Width is time. Click to zoom, arrow keys to move, Esc to show all.",
);

/** What opens and closes the flame graph of the selection. */
export function flameButton(act: (action: Action) => void, signal: AbortSignal): Part {
  const node = button("", say("a flame graph of the selection"), () => act({ do: "flame" }), signal, "pm-unfold");
  const update = ({ flame }: State): void => {
    node.textContent = `${say("Where Python was")} ${flame ? "▾" : "▸"}`;
    node.setAttribute("aria-expanded", String(flame));
  };
  return { node, update };
}

export class FlamePanel implements Part {
  readonly node = el("div", "pm-flame");
  private readonly told = el("div", "pm-say", say(HINT));
  private readonly graphs = el("div");
  private readonly body: HTMLElement;
  private readonly toggle: Part;
  /** The path of each box, and of each name above a graph. */
  private readonly paths = new Map<Element | null, FlamePath>();
  private threads: FlamePath[] = [];
  private zoomed: FlamePath | null = null;
  private shown = "";

  constructor(
    private readonly model: Model,
    act: (action: Action) => void,
    signal: AbortSignal,
  ) {
    this.toggle = flameButton(act, signal);
    const { kinds = [], note = "" } = model.flame?.wire ?? {};
    const key = kinds.map(([token, words]) => (words ? el("span", "", swatch(token), words) : ""));
    this.body = el("div", "", this.told, this.graphs, el("div", "pm-linekey", ...key, note));
    this.node.append(this.toggle.node, this.body);
    this.body.addEventListener("click", ({ target }) => this.clicked(target as Element), { signal });
    for (const kind of ["pointerover", "focusin"])
      this.body.addEventListener(kind, ({ target }) => this.point(target as Element), { signal });
  }

  update(state: State): void {
    this.node.hidden = !state.selection || !this.model.flame;
    this.toggle.update(state);
    const opens = state.flame && this.body.hidden;
    this.body.hidden = !state.flame;
    const key = `${state.selection}`;
    if (this.node.hidden || !state.flame) return;
    if (key !== this.shown) {
      this.shown = key;
      this.threads = this.model.flame!.threads(state.selection!);
      this.zoom(this.zoomed);
    }
    if (opens) this.node.scrollIntoView({ block: "nearest" });
  }

  /** Keys while a box has the focus. Returns false where a command is none of the graph's. */
  obey(command: Command): boolean {
    const here = document.activeElement as HTMLElement | null;
    const path = this.paths.get(here);
    if (!path || !here?.matches(BOX)) return false;
    const boxes = [...here.parentElement!.children].filter((box) => this.paths.has(box)) as HTMLElement[];
    const row = boxes.filter((box) => box.style.top === here.style.top);
    const beside = row.indexOf(here);
    let to: HTMLElement | undefined;
    if (command === "next") to = row[beside + 1];
    else if (command === "previous") to = row[beside - 1];
    else if (command === "row above") to = boxes.find((box) => this.paths.get(box) === path.parent);
    else if (command === "row below") to = boxes.find((box) => this.paths.get(box)!.parent === path);
    else if (command === "escape" && this.zoomed) this.zoom(null, true);
    else return false;
    to?.focus();
    return true;
  }

  private clicked(target: Element): void {
    const name = target.closest("button");
    const path = this.paths.get(name) ?? null;
    if (name) this.zoom(path === this.zoomed ? null : path, true);
  }

  private point(target: Element): void {
    const path = this.paths.get(target);
    this.tell(path ?? this.zoomed);
    if (target !== document.activeElement || !target.matches(BOX)) return;
    for (const box of target.parentElement!.children) (box as HTMLElement).tabIndex = box === target ? 0 : -1;
  }

  private tell(path: FlamePath | null): void {
    this.told.textContent = path ? wordsOf(path) : say(HINT);
  }

  /** Draws one path with what is inside, or of every thread what is not the same all the time. */
  private zoom(path: FlamePath | null, focus = false): void {
    const all = (inside: FlamePath[]): FlamePath[] => inside.flatMap((one) => [one, ...all(one.inside)]);
    this.zoomed = (path && all(this.threads).find(({ id }) => id === path.id)) ?? null;
    const tops = this.zoomed ? [this.zoomed] : this.threads.slice(0, MOST_THREADS).map(innermostOfAll);
    this.paths.clear();
    this.graphs.replaceChildren(...tops.map((top) => this.graph(top)));
    const rest = this.zoomed ? 0 : this.threads.length - tops.length;
    if (rest) this.graphs.append(plural(rest, "more thread"));
    if (!tops.length) this.graphs.append(say("Nothing was recorded of Python in this time."));
    this.tell(this.zoomed);
    if (focus) this.graphs.querySelector<HTMLElement>(BOX)?.focus({ preventScroll: true });
  }

  /** A path with what is inside, and above it what is around it. */
  private graph(top: FlamePath): HTMLElement {
    const around: FlamePath[] = [];
    for (let path = top.parent; path; path = path.parent) around.unshift(path);
    const crumbs: HTMLElement[] = around.map((path) => this.named(el("button", "pm-line", shortName(path)), path));
    if (crumbs.length > MOST_CRUMBS) crumbs.splice(1, crumbs.length - MOST_CRUMBS, el("span", "", "…"));
    if (this.zoomed) crumbs.unshift(el("button", "pm-line", say("all")));
    const tree = el("div", "pm-tree");
    tree.setAttribute("role", "tree");
    tree.setAttribute("aria-label", say("where Python was, {thread}", { thread: (around[0] ?? top).name }));
    let levels = 0;
    const add = (path: FlamePath, left: number, level: number): void => {
      levels = Math.max(levels, level + 1);
      const share = path.total / top.total;
      const words = share < NAMED_SHARE ? "" : `${shortName(path)} · ${duration(path.total)}`;
      const box = this.named(el("button", "", words), path);
      box.setAttribute("role", "treeitem");
      box.tabIndex = level ? -1 : 0;
      box.style.background = `var(--pm-${this.model.flame!.wire.kinds[path.kind][0]})`;
      place(tree, box, left, share, level);
      let narrow = 0;
      let n = 0;
      for (const inner of path.inside) {
        const width = inner.total / top.total;
        if (width < LEAST_SHARE) {
          narrow += width;
          n++;
          continue;
        }
        add(inner, left, level + 1);
        left += width;
      }
      if (narrow < LEAST_SHARE) return;
      const rest = el("i", "", narrow < NAMED_SHARE ? "" : say("{n} more", { n: count(n) }));
      rest.title = `${plural(n, "path")}, ${duration(narrow * top.total)}`;
      levels = Math.max(levels, level + 2);
      place(tree, rest, left, narrow, level + 1);
    };
    add(top, 0, 0);
    tree.style.height = `${levels * ROW_PX}px`;
    return el("div", "", el("div", "pm-crumbs", ...crumbs.flatMap((crumb) => [crumb, " › "])), tree);
  }

  private named<T extends HTMLElement>(node: T, path: FlamePath): T {
    this.paths.set(node, path);
    node.title = wordsOf(path);
    return node;
  }
}

function place(tree: HTMLElement, box: HTMLElement, left: number, width: number, level: number): void {
  Object.assign(box.style, { left: `${left * 100}%`, width: `${width * 100}%`, top: `${level * ROW_PX}px` });
  tree.append(box);
}

function shortName({ name }: FlamePath): string {
  return name.replace(FOLDER, "(");
}

function wordsOf(path: FlamePath): string {
  let thread = path;
  while (thread.parent) thread = thread.parent;
  const time = duration(path.self);
  const alone =
    thread === path
      ? say("{time} outside of all that is recorded", { time })
      : `${say("{time} itself", { time })} · ${plural(path.calls, "call")}`;
  const share = say("{share} of the selection", { share: percent(path.total / thread.total) });
  return `${path.name}: ${duration(path.total)}, ${share} · ${alone}`;
}
