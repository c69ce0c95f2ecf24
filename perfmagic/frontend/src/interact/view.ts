// One timeline on a page: elements, events, frames. Everything it registers ends with `destroy`.
import { el } from "./dom.ts";
import { detailsOf } from "./details.ts";
import { keyLine, selectionPanel, trustLines } from "./foot.ts";
import { findingList, shareBar, topLine, type Part } from "./head.ts";
import { hitsOf, type Hits } from "../model/hits.ts";
import type { Host } from "../host/host.ts";
import { commandOf } from "./keys.ts";
import { layoutOf, type Layout } from "../model/layout.ts";
import { card, CARD_PX, helpBox, Search } from "./overlays.ts";
import { Canvas } from "../paint/canvas.ts";
import { pick, type Picked } from "./pick.ts";
import { Pointer } from "./pointer.ts";
import { Scale, type Window } from "../model/scale.ts";
import { initial, reduce, type Action, type State } from "../model/state.ts";
import { shortName, type Model, type Ref } from "../model/store.ts";
import { dress, STYLE } from "../paint/style.ts";
import { beside, closeUp, nextHit, showing, spanOf, walk } from "./walk.ts";

const ZOOM_STEP = 1.6;
const PAN_STEP = 0.25;
const GLIDE_MS = 120;
const REST_MS = 140; // without a change for so long, the full picture is painted and the host is told

export class View {
  state: State;
  readonly canvas: Canvas;
  private readonly over = new AbortController();
  private readonly root: HTMLElement;
  private readonly body: HTMLElement;
  private readonly parts: Part[];
  private readonly search: Search;
  private readonly stopTheme: () => void;
  private readonly sizes: ResizeObserver;
  private cardNode: HTMLElement | null = null;
  private helpNode: HTMLElement | null = null;
  private layoutMade: Layout | null = null;
  private hitsMade: Hits | null = null;
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
    this.state = initial(model.span);
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
    this.search = new Search(act, (by) => this.step(by), signal);
    this.body.append(this.canvas.node, this.search.node);
    const top = topLine(model, act, () => this.canvas.save(), signal);
    const findings = findingList(model, act, signal);
    const panel = selectionPanel(model);
    const key = keyLine(model, act, signal);
    this.parts = [top, findings, panel, key];
    this.root = el("div", "pm", style, top.node);
    if (model.header.failure) this.root.append(el("div", "pm-failure", model.header.failure));
    this.root.append(...shareBar(model), findings.node, this.body, panel.node, key.node, trustLines(model));
    parent.append(this.root);
    dress(this.root, host.theme());
    this.stopTheme = host.onTheme(() => {
      dress(this.root, host.theme());
      this.ask();
    });
    new Pointer(this.canvas.node, this, signal);
    const whole = (): void => this.canvas.finish();
    window.addEventListener("beforeprint", whole, { signal });
    window.addEventListener("scroll", whole, { signal, capture: true, passive: true });
    this.listenForKeys(signal);
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
    const before = this.state;
    this.state = reduce(before, action);
    if (this.state === before) return;
    if (this.state.view !== before.view) this.look(gliding);
    if (this.state.query !== before.query || this.state.line !== before.line)
      this.hitsMade = hitsOf(this.model, this.state);
    if (this.state.open !== before.open || this.state.streams !== before.streams) this.layoutMade = null;
    if (this.state.hover !== before.hover && !this.state.hover) this.showCard(null);
    for (const part of this.parts) part.update(this.state);
    this.search.update(this.state, this.hitsMade);
    if (before.searching && !this.state.searching) this.body.focus({ preventScroll: true });
    this.showHelp();
    this.later();
    this.ask();
  }

  get layout(): Layout {
    return (this.layoutMade ??= layoutOf(this.model, this.state, this.width));
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
    this.showCard(picked.ref && { ref: picked.ref, picked, x, y });
  }

  focusOn(ref: Ref | null): void {
    if (!ref) return;
    const span = spanOf(this.model, ref);
    this.act({ do: "focus", ref, show: showing(this.state.view, span) });
    const x = this.scale.xIn(span[0]);
    this.showCard({ ref, x, y: this.layout.height / 3 });
  }

  /** Paints now what is asked for; for benchmarks also without waiting for the browser's next frame. */
  paint(moving = this.moving): void {
    const state = this.seen === this.state.view ? this.state : { ...this.state, view: this.seen };
    this.canvas.paint(this.model, state, this.layout, this.hitsMade, this.host.theme(), moving);
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
    this.ask();
  }

  private showCard(at: { ref: Ref; picked?: Picked; x: number; y: number } | null): void {
    this.cardNode?.remove();
    this.cardNode = null;
    if (!at) return;
    const node = (this.cardNode = card(detailsOf(this.model, at.ref, this.state.view, at.picked)));
    this.body.append(node);
    // over the plot, never over the numbers, and away from the pointer
    const { left, plot, height } = this.layout;
    const right = at.x + 24 + CARD_PX <= plot;
    const x = right ? at.x + 24 : Math.max(0, at.x - 24 - CARD_PX);
    const y = Math.max(0, Math.min(height - node.offsetHeight, at.y + 20));
    node.style.left = `${left + x}px`;
    node.style.top = `${y}px`;
  }

  private showHelp(): void {
    if (this.state.help && !this.helpNode) this.body.append((this.helpNode = helpBox()));
    if (!this.state.help) {
      this.helpNode?.remove();
      this.helpNode = null;
    }
  }

  private step(by: 1 | -1): void {
    if (!this.hitsMade) return;
    this.focusOn(nextHit(this.model, this.hitsMade, this.state.focus, by, this.state.view));
  }

  /** Ours before anybody's: a notebook listens on the document while events go down, so we listen on the window. */
  private listenForKeys(signal: AbortSignal): void {
    const pressed = (event: KeyboardEvent): void => {
      if (document.activeElement !== this.body || event.defaultPrevented) return;
      const command = commandOf(event);
      if (!command) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      this.command(command);
    };
    window.addEventListener("keydown", pressed, { capture: true, signal });
  }

  private command(command: NonNullable<ReturnType<typeof commandOf>>): void {
    const { focus, view, selection } = this.state;
    switch (command) {
      case "zoom in":
        return this.act({ do: "zoom", factor: 1 / ZOOM_STEP, around: this.canvas.pointer ?? (view[0] + view[1]) / 2 });
      case "zoom out":
        return this.act({ do: "zoom", factor: ZOOM_STEP, around: this.canvas.pointer ?? (view[0] + view[1]) / 2 });
      case "left":
        return this.act({ do: "pan", share: -PAN_STEP });
      case "right":
        return this.act({ do: "pan", share: PAN_STEP });
      case "fit":
        return this.act({ do: "fit" });
      case "search":
        if (focus?.kind === "op" && !this.state.query) {
          const name = shortName(this.model, this.model.streams[focus.stream].name[focus.row]);
          this.act({ do: "search", query: name });
        }
        return this.act({ do: "searching", on: true });
      case "back":
        return this.focusOn(walk(this.model, focus, false, view));
      case "forth":
        return this.focusOn(walk(this.model, focus, true, view));
      case "previous":
        return this.focusOn(beside(this.model, focus, -1, view));
      case "next":
        return this.focusOn(beside(this.model, focus, 1, view));
      case "open":
        if (focus) this.act({ do: "look", view: closeUp(spanOf(this.model, focus)) });
        else if (selection) this.act({ do: "look", view: selection });
        return;
      case "next hit":
        return this.step(1);
      case "previous hit":
        return this.step(-1);
      case "help":
        return this.act({ do: "help" });
      case "escape":
        this.showCard(null);
        return this.act({ do: "escape" });
    }
  }
}
