// Mouse and pen: hover, drag to select, drag the overview, double click, wheel with Ctrl or Shift.
import type { Picked } from "./pick.ts";
import { closeUp, spanOf } from "./walk.ts";
import { rowAt, type Layout, type Row } from "../model/layout.ts";
import type { Scale } from "../model/scale.ts";
import type { Action, State } from "../model/state.ts";
import type { Model } from "../model/store.ts";

const DRAG_PX = 3;
const WHEEL_ZOOM = 0.0022;

/** What the pointer acts on. */
export interface Pointed {
  readonly model: Model;
  readonly state: State;
  readonly layout: Layout;
  readonly scale: Scale;
  /** The instant under the pointer, null while it is elsewhere. */
  pointer: number | null;
  act(action: Action, gliding?: boolean): void;
  hover(x: number, y: number): void;
  pickAt(x: number, y: number): Picked;
}

export class Pointer {
  private drag: { x: number; at: number; row: Row | null; moved: boolean } | null = null;

  constructor(
    private readonly node: HTMLCanvasElement,
    private readonly view: Pointed,
    signal: AbortSignal,
  ) {
    const on = <K extends keyof HTMLElementEventMap>(kind: K, act: (event: HTMLElementEventMap[K]) => void): void =>
      node.addEventListener(kind, act, { signal });
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", () => (this.drag = null));
    on("pointerleave", (event) => this.leave(event));
    on("dblclick", (event) => this.double(event));
    // a press on anything but the lanes takes the card away: no finger leaves it as a mouse does
    document.addEventListener("pointerdown", (event) => event.target !== node && view.hover(-1, -1), { signal });
    node.addEventListener("wheel", (event) => this.wheel(event), { signal, passive: false });
  }

  /** Plot coordinates of an event, CSS pixels. */
  private at(event: MouseEvent): [number, number] {
    const box = this.node.getBoundingClientRect();
    return [event.clientX - box.left - this.view.layout.left, event.clientY - box.top];
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const [x, y] = this.at(event);
    this.drag = { x, at: this.view.scale.ns(x), row: rowAt(this.view.layout, y), moved: false };
    this.node.setPointerCapture(event.pointerId);
    if (this.drag.row?.kind === "overview") this.overview(x);
  }

  private move(event: PointerEvent): void {
    const [x, y] = this.at(event);
    const inside = x >= 0 && x < this.view.layout.plot;
    this.view.pointer = inside ? this.view.scale.ns(x) : null;
    const { drag } = this;
    if (!drag) {
      this.view.hover(x, y);
      this.node.style.cursor = this.cursor(x, y);
      return;
    }
    if (Math.abs(x - drag.x) >= DRAG_PX) drag.moved = true;
    if (drag.row?.kind === "overview") this.overview(x);
    else if (drag.moved) {
      const to = this.view.scale.ns(Math.max(0, Math.min(this.view.layout.plot, x)));
      this.view.hover(-1, -1);
      this.view.act({ do: "select", window: [drag.at, to] });
    }
  }

  private up(event: PointerEvent): void {
    const { drag } = this;
    this.drag = null;
    if (!drag || drag.moved || drag.row?.kind === "overview") return;
    const [x, y] = this.at(event);
    this.click(x, y, drag.row);
    if (event.pointerType === "touch") this.view.hover(x, y);
  }

  private click(x: number, y: number, row: Row | null): void {
    const { view } = this;
    if (row?.kind === "thread" && x < 0) return view.act({ do: "thread", thread: row.index });
    if (row?.kind === "more" && row.sub) return view.act({ do: "more" });
    if (row?.kind === "rank") return view.act({ do: "rank", rank: row.index });
    const { ref } = view.pickAt(x, y);
    if (ref?.kind === "line") {
      view.act({ do: "line", line: view.model.cell!.line[ref.row] });
    } else if (ref) view.act({ do: "focus", ref });
    else if (view.state.focus) view.act({ do: "focus", ref: null });
    else view.act({ do: "select", window: null });
  }

  private double(event: MouseEvent): void {
    const [x, y] = this.at(event);
    const { view } = this;
    const { ref } = view.pickAt(x, y);
    const { selection } = view.state;
    const at = view.scale.ns(x);
    if (ref) view.act({ do: "look", view: closeUp(spanOf(view.model, ref)) });
    else if (selection && at >= selection[0] && at <= selection[1]) view.act({ do: "look", view: selection });
    event.preventDefault();
  }

  /** Only with Ctrl or Shift: the plain wheel scrolls the notebook. */
  private wheel(event: WheelEvent): void {
    const [x] = this.at(event);
    const by = event.deltaMode === 1 ? 16 : 1; // lines or pixels
    if (event.ctrlKey || event.metaKey) {
      const factor = Math.exp(event.deltaY * by * WHEEL_ZOOM);
      this.view.act({ do: "zoom", factor, around: this.view.scale.ns(x) }, false);
    } else if (event.shiftKey) {
      const delta = (event.deltaX || event.deltaY) * by;
      this.view.act({ do: "pan", share: delta / this.view.layout.plot }, false);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Moves the window to the pointer. */
  private overview(x: number): void {
    const { state, layout, model } = this.view;
    const length = state.view[1] - state.view[0];
    const middle = (x / layout.plot) * model.span;
    this.view.act({ do: "look", view: [middle - length / 2, middle + length / 2] }, false);
  }

  /** A finger that is lifted leaves the card of what it tapped. */
  private leave(event: PointerEvent): void {
    if (event.pointerType === "touch") return;
    this.view.pointer = null;
    if (!this.drag) this.view.hover(-1, -1);
  }

  private cursor(x: number, y: number): string {
    const row = rowAt(this.view.layout, y);
    if ((row?.kind === "thread" && x < 0) || (row?.kind === "more" && row.sub)) return "pointer";
    if (row?.kind === "rank") return this.view.model.ranks[row.index].wire.part ? "pointer" : "default";
    return row?.kind === "overview" ? "grab" : "default";
  }
}
