// The strips of all rows on one canvas over the table: painted where the window shows them, again when it scrolls.
import { el } from "./dom.ts";
import type { Layout } from "../model/layout.ts";
import type { Scale } from "../model/scale.ts";
import type { Model } from "../model/store.ts";
import { paintGrid, paintLineStrip } from "../paint/line_strips.ts";
import type { Context } from "../paint/text.ts";
import { Palette, type Theme } from "../paint/theme.ts";

const OVER_PX = 200; // beyond the window, so that a scroll finds strips
const MOST_PIXELS = 16_000; // of a canvas's height: beyond it browsers draw nothing

export class LineStrips {
  readonly node = el("canvas");
  private last: [Scale, Layout, Theme] | null = null;
  private seen: [number, number] = [0, 0];
  private palette = new Palette("light");

  constructor(
    private readonly model: Model,
    private readonly rows: HTMLTableRowElement[],
    signal: AbortSignal,
  ) {
    const again = (): void => this.again(false);
    window.addEventListener("scroll", again, { signal, capture: true, passive: true });
    window.addEventListener("resize", again, { signal });
    window.addEventListener("beforeprint", () => this.again(true), { signal });
  }

  paint(scale: Scale, layout: Layout, theme: Theme): void {
    this.last = [scale, layout, theme];
    this.draw(this.window());
  }

  /** After a scroll: only where there is something new to see. */
  private again(all: boolean): void {
    if (!this.last || !this.node.isConnected || !this.node.offsetParent) return;
    const now: [number, number] = all ? [0, Infinity] : this.window();
    const kept = now[0] + OVER_PX >= this.seen[0] && now[1] - OVER_PX <= this.seen[1];
    if (all || !kept) this.draw(now);
  }

  /** The part of the table that the window shows, and some beyond. */
  private window(): [number, number] {
    const { top } = this.node.parentElement!.getBoundingClientRect();
    return [-top - OVER_PX, window.innerHeight - top + OVER_PX];
  }

  private draw([from, to]: [number, number]): void {
    const [scale, layout, theme] = this.last!;
    if (this.palette.theme !== theme) this.palette = new Palette(theme);
    const { node } = this;
    const table = node.parentElement!.firstElementChild as HTMLElement;
    const high = table.offsetHeight;
    const dpr = Math.min(window.devicePixelRatio || 1, MOST_PIXELS / high);
    const size = [Math.round(layout.plot * dpr), Math.round(high * dpr)];
    if (node.width !== size[0] || node.height !== size[1]) [node.width, node.height] = size as [number, number];
    Object.assign(node.style, { left: `${layout.left}px`, width: `${layout.plot}px`, height: `${high}px` });
    const g = node.getContext("2d")!;
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.clearRect(0, 0, layout.plot, high);
    const context = g as unknown as Context;
    paintGrid(context, this.palette, scale, high);
    const when = this.model.lines!.when();
    this.rows.forEach((row, i) => {
      const y = row.offsetTop;
      if (y + row.offsetHeight >= from && y <= to) paintLineStrip(context, this.palette, scale, when[i], y);
    });
    this.seen = [from, to];
  }
}
