// One timeline on a page: elements, events, frames. Everything it registers ends with `destroy`.
import { AnswerList } from "./answers.ts";
import { detailsOf } from "./details.ts";
import { spokenWords } from "./detail_rows.ts";
import { el, type Part } from "./dom.ts";
import { colourKey, finePrint, selectionPanel } from "./foot.ts";
import { FlamePanel } from "./flame.ts";
import { pathBar, shareBar, summary } from "./head.ts";
import type { Host } from "./host.ts";
import { obey, toHit, type Commanded } from "./commands.ts";
import { listenForKeys } from "./keyboard.ts";
import { helpBox, HoverCard, Search } from "./overlays.ts";
import { pick, type Picked } from "./pick.ts";
import { Pointer, type Pointed } from "./pointer.ts";
import type { Panel } from "./panel.ts";
import { tabOf } from "./tabs.ts";
import { dress, STYLE } from "./style.ts";
import { showing, spanOf } from "./walk.ts";
import { type Hits, hitsOf } from "../model/hits.ts";
import type { Layout } from "../model/layout.ts";
import { Scale, type Window } from "../model/scale.ts";
import { type Action, initial, reduce, type State } from "../model/state.ts";
import type { Model, Ref } from "../model/store.ts";
import { Canvas } from "../paint/canvas.ts";
import { speak } from "../model/words.ts";

const GLIDE_MS = 120;
const REST_MS = 140; // without a change for this long, the full picture is painted and the host is notified

export class View implements Pointed, Commanded {
  state: State;
  /** The instant under the pointer, null while it is elsewhere. */
  pointer: number | null = null;
  hits: Hits | null = null;
  readonly canvas: Canvas;
  private readonly over = new AbortController();
  readonly root: HTMLElement;
  private readonly body: HTMLElement;
  private readonly parts: Part[];
  private readonly search: Search;
  private readonly panels = new Map<string, Panel>();
  private readonly stopTheme: () => void;
  private readonly sizes: ResizeObserver;
  private readonly card: HoverCard;
  /** What a screen reader says of the op that the keyboard has come to. */
  private readonly spoken = el("div", "pm-spoken");
  private helpNode: HTMLElement | null = null;
  private layoutMade: Layout | null = null;
  /** What is on screen: on its way to state.view while gliding. */
  private seen: Window;
  private glide: { from: Window; since: number } | null = null;
  private frame = 0;
  private rest = 0;
  private width = 0;
  private painted = false;
  private moving = false;

  constructor(
    parent: HTMLElement,
    readonly model: Model,
    private readonly host: Host,
  ) {
    this.state = initial(model.span, model.header.view);
    this.seen = this.state.view;
    const { signal } = this.over;
    const act = (action: Action): void => this.act(action);
    const style = el("style");
    style.textContent = STYLE;
    this.body = el("div", "pm-body");
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "application");
    this.body.setAttribute("aria-label", model.header.alt);
    this.canvas = new Canvas();
    this.search = new Search(act, (by) => toHit(this, by), signal);
    this.card = new HoverCard(this.body);
    this.body.append(this.canvas.node, this.search.node);
    const top = summary(model, act, () => this.canvas.save(), signal);
    const path = pathBar(model, act, signal);
    const answers = new AnswerList(model, act, signal);
    const panel = selectionPanel(model);
    const flame = new FlamePanel(model, act, signal);
    const key = colourKey(model, act, signal);
    this.parts = [top, path, answers, panel, flame, key];
    this.root = el("div", "pm", style, top.node);
    if (model.header.failure) this.root.append(el("div", "pm-failure", model.header.failure));
    const below = [path, panel, flame, key].map(({ node }) => node);
    this.root.append(answers.node, this.body, ...shareBar(model), ...below, finePrint(model));
    this.spoken.setAttribute("role", "status");
    this.root.append(this.spoken);
    parent.append(this.root);
    this.root.dataset["tab"] = this.state.tab;
    dress(this.root, host.theme());
    this.stopTheme = host.onTheme(() => {
      dress(this.root, host.theme());
      this.ask();
    });
    new Pointer(this.canvas.node, this, signal);
    const whole = (): void => this.canvas.finish();
    window.addEventListener("beforeprint", whole, { signal });
    window.addEventListener("scroll", whole, { signal, capture: true, passive: true });
    listenForKeys(this.root, (command) => flame.obey(command) || obey(this, command), signal);
    this.sizes = new ResizeObserver(() => this.resized());
    this.sizes.observe(this.root);
    for (const part of this.parts) part.update(this.state);
    this.resized();
  }

  /** Ends everything: frames, timers, listeners, elements. */
  destroy(): void {
    this.over.abort();
    this.sizes.disconnect();
    this.stopTheme();
    cancelAnimationFrame(this.frame);
    this.canvas.destroy();
    clearTimeout(this.rest);
    this.root.remove();
  }

  act(action: Action, gliding = action.do !== "hover"): void {
    speak(this.model.header);
    const before = this.state;
    if (action.do === "escape") this.card.hide();
    this.state = reduce(before, action);
    if (this.state === before) return;
    if (this.state.view !== before.view) {
      this.look(gliding);
      this.host.looked?.(this.state.view);
    }
    if (this.state.ranks !== before.ranks) this.host.opened?.(this.state.ranks);
    if (this.state.tab !== before.tab) this.turned();
    if (marks(this.state) !== marks(before)) this.hits = hitsOf(this.model, this.state);
    if (this.state.open !== before.open || this.state.streams !== before.streams) this.layoutMade = null;
    if (this.state.hover !== before.hover && !this.state.hover) this.card.hide();
    for (const part of this.parts) part.update(this.state);
    this.search.update(this.state, this.hits);
    if (before.searching && !this.state.searching) this.body.focus({ preventScroll: true });
    this.showHelp();
    this.later();
    this.ask();
  }

  get layout(): Layout {
    return (this.layoutMade ??= this.arranged());
  }

  private arranged(): Layout {
    const { fontShare } = this.canvas.writer;
    this.root.style.setProperty("--pm-font", String(fontShare));
    return tabOf(this.state).layout(this.model, this.state, this.width, fontShare);
  }

  /** The scale of what is on screen. */
  get scale(): Scale {
    return new Scale(this.seen[0], this.seen[1], this.layout.plot);
  }

  pickAt(x: number, y: number): Picked {
    return pick(this.model, this.layout, this.scale, x, y);
  }

  /** Points at what lies under the pointer; x, y: CSS pixels of the plot. */
  hover(x: number, y: number): void {
    const picked = this.pickAt(x, y);
    this.act({ do: "hover", ref: picked.ref });
    if (picked.ref && !this.open)
      this.card.show(detailsOf(this.model, picked.ref, this.state.view, picked), x, y, this.layout);
    else this.card.hide();
  }

  focusOn(ref: Ref | null): void {
    if (!ref) return;
    const span = spanOf(this.model, ref);
    this.act({ do: "focus", ref, show: showing(this.state.view, span) });
    const details = detailsOf(this.model, ref, this.state.view);
    this.spoken.textContent = spokenWords(details);
    if (this.open) return; // its tab shows it in its own place
    this.card.show(details, this.scale.xIn(span[0]), this.layout.height / 3, this.layout);
  }

  /** Paints now what is asked for; for benchmarks also without waiting for the browser's next frame. */
  paint(moving = this.moving): void {
    speak(this.model.header); // another view may have another language
    const state = this.seen === this.state.view ? this.state : { ...this.state, view: this.seen };
    this.canvas.paint(this.model, state, this.layout, this.hits, this.host.theme(), moving);
    this.open?.paint(this.scale, this.layout, this.host.theme());
  }

  step(by: 1 | -1): boolean {
    return this.open?.step(by) ?? false;
  }

  /** What the open tab shows below the lanes, null where these are all. */
  private get open(): Panel | null {
    return this.panels.get(this.state.tab) ?? null;
  }

  /** Another tab is open; what it has below the lanes is made when it is opened first. */
  private turned(): void {
    const { name, panel } = tabOf(this.state);
    if (panel && !this.panels.has(name)) {
      const made = panel(this.model, (action) => this.act(action), this.over.signal);
      this.panels.set(name, made);
      this.parts.push(made);
      this.body.after(made.node);
    }
    this.layoutMade = null;
    this.card.hide();
    this.root.dataset["tab"] = this.state.tab;
    this.root.style.setProperty("--pm-strip", `${this.layout.height}px`);
  }

  lookAt(window: Window): void {
    this.act({ do: "look", view: window }, false);
  }

  private look(gliding: boolean): void {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.moving = true;
    if (gliding && !calm && this.painted) this.glide = { from: this.seen, since: performance.now() };
    else {
      this.glide = null;
      this.seen = this.state.view;
    }
  }

  private ask(): void {
    if (!this.frame && this.width) this.frame = requestAnimationFrame((now) => this.draw(now));
  }

  private draw(now: number): void {
    this.frame = 0;
    if (this.glide) {
      const share = Math.min(1, Math.max(0, now - this.glide.since) / GLIDE_MS);
      const { from } = this.glide;
      const to = this.state.view;
      if (share < 1) this.seen = [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];
      else {
        this.seen = to;
        this.glide = null;
      }
    }
    this.paint();
    if (this.glide) this.ask();
    if (!this.painted) {
      this.painted = true;
      this.host.painted?.();
    }
  }

  private later(): void {
    clearTimeout(this.rest);
    this.rest = window.setTimeout(() => {
      if (this.glide) return this.later();
      if (this.moving) {
        this.moving = false;
        this.ask();
      }
      this.host.settled?.(this.state.view, this.state.selection);
    }, REST_MS);
  }

  private resized(): void {
    const width = Math.floor(this.root.clientWidth);
    if (!width || width === this.width) return;
    this.width = width;
    this.layoutMade = null;
    this.root.classList.toggle("pm-narrow", width < 720);
    this.root.classList.toggle("pm-slim", width < 560);
    this.ask();
  }

  private showHelp(): void {
    if (this.state.help && !this.helpNode) this.body.append((this.helpNode = helpBox()));
    if (!this.state.help) {
      this.helpNode?.remove();
      this.helpNode = null;
    }
  }
}

/** What decides which ops are marked. */
function marks({ query, line, tab, lineRow, pinnedRow, hover }: State): string {
  const above =
    tab === "lines" ? `${lineRow} ${pinnedRow} ${hover?.kind} ${hover?.kind === "op" ? "" : hover?.row}` : "";
  return `${line} ${above} ${query}`;
}
