// The canvas of a view: its size in device pixels, the pixel buffer behind the plot, and one frame.
import type { Hits } from "../model/hits.ts";
import type { Layout } from "../model/layout.ts";
import { Scale } from "../model/scale.ts";
import type { State } from "../model/state.ts";
import type { Model } from "../model/store.ts";
import type { Frame } from "./draw.ts";
import { paintPixels, paintWords } from "./paint.ts";
import { type Band, Pixels } from "./pixels.ts";
import { type Context, Writer } from "./text.ts";
import { Palette, type Theme } from "./theme.ts";

const MOST_PIXELS = 16_000; // of a canvas's height: beyond it browsers draw nothing
const SLOW_MS = 9; // a moving frame that took longer is followed by coarser ones
const OVER_PX = 16; // so far labels and edges reach out of their lane
const LATER_MS = 16; // between two of the pieces that follow: the browser's turn
const PIECE_PX = 600; // rows of pixels painted at once of what is not on screen

export class Canvas {
  readonly node = document.createElement("canvas");
  lastMs = 0;
  private readonly g: CanvasRenderingContext2D;
  private text: Writer | null = null;
  private px: Pixels | null = null;
  private palette: Palette | null = null;
  private columnPx = 1;
  /** The last frame at rest, and its bands that are not painted yet. */
  private standing: Frame | null = null;
  private unseen: Band[] = [];
  private idle = 0;
  private coarse: CanvasRenderingContext2D | null = null;

  constructor() {
    // an image is put in every frame: a canvas kept in main memory takes it without a copy
    this.g = this.node.getContext("2d", { willReadFrequently: true })!;
  }

  paint(model: Model, state: State, layout: Layout, hits: Hits | null, theme: Theme, moving: boolean): void {
    const since = performance.now();
    const dpr = Math.min(window.devicePixelRatio || 1, MOST_PIXELS / layout.height);
    const width = Math.round(layout.plot * dpr);
    const height = Math.round(layout.height * dpr);
    if (this.palette?.theme !== theme) this.palette = new Palette(theme);
    this.palette!.predicted = model.header.predicted === true;
    this.columnPx = moving ? this.columnPxFor(dpr) : 1;
    this.resize(layout, dpr, width, height);
    const scale = new Scale(state.view[0], state.view[1], width / dpr);
    const frame: Frame = {
      ...{ model, state, layout, rows: [], hits, scale, dpr, moving, columnPx: this.columnPx },
      palette: this.palette!,
      edges: columns(scale, width, this.columnPx),
      px: this.px!,
      text: this.writer,
    };
    const band = this.onScreen(dpr, height);
    this.part(frame, band);
    this.standing = moving ? null : frame;
    this.unseen = moving ? [] : [...pieces(band[1], height), ...pieces(0, band[0])];
    this.later();
    this.lastMs = performance.now() - since;
  }

  /** Measures in the page's own fonts; to be asked when the canvas is in the page. */
  get writer(): Writer {
    return (this.text ??= new Writer(this.g as unknown as Context, this.fonts()));
  }

  /** Paints at once what a frame at rest left for when there is time. */
  finish(): void {
    while (this.unseen.length) this.part(this.standing!, this.unseen.shift()!);
  }

  destroy(): void {
    this.unseen = [];
    this.standing = null;
  }

  private later(): void {
    if (!this.unseen.length || this.idle) return;
    this.idle = window.setTimeout(() => {
      this.idle = 0;
      const band = this.unseen.shift();
      if (band) this.part(this.standing!, band);
      this.later();
    }, LATER_MS);
  }

  /** A canvas with one pixel a column, to be drawn wider. */
  private narrow(px: Pixels, [top, bottom]: Band): CanvasRenderingContext2D {
    const { columns, height } = px;
    if (this.coarse?.canvas.width !== columns || this.coarse.canvas.height !== height) {
      const node = document.createElement("canvas");
      node.width = columns;
      node.height = height;
      this.coarse = node.getContext("2d", { willReadFrequently: true })!;
    }
    this.coarse.putImageData(px.image(), 0, 0, 0, top, columns, bottom - top);
    return this.coarse;
  }

  private part(all: Frame, band: Band): void {
    const [top, bottom] = band;
    if (bottom <= top) return;
    const { layout, dpr } = all;
    const near = OVER_PX * dpr;
    const rows = layout.rows.filter((row) => row.y * dpr < bottom + near && (row.y + row.h) * dpr > top - near);
    const frame = { ...all, rows };
    paintPixels(frame, band);
    const { g } = this;
    const left = Math.round(layout.left * dpr);
    const { width, columns, columnPx } = all.px;
    const high = bottom - top;
    g.setTransform(1, 0, 0, 1, 0, 0);
    if (columnPx === 1) g.putImageData(all.px.image(), left, 0, 0, top, columns, high);
    else {
      const { canvas } = this.narrow(all.px, band);
      g.imageSmoothingEnabled = false;
      g.drawImage(canvas, 0, top, columns, high, left, top, columns * columnPx, high);
    }
    g.clearRect(0, top, left, high);
    g.clearRect(left + width, top, this.node.width, high);
    g.save();
    g.beginPath();
    g.rect(0, top, this.node.width, bottom - top);
    g.clip(); // words of lanes that keep their old picture would be written over themselves
    g.setTransform(dpr, 0, 0, dpr, left, 0);
    paintWords(frame);
    g.restore();
  }

  save(): void {
    this.finish();
    const link = document.createElement("a");
    link.download = "timeline.png";
    link.href = this.node.toDataURL("image/png");
    link.click();
  }

  /** The rows of pixels that the window shows: a moving frame paints no others, the frame at rest these first. */
  private onScreen(dpr: number, height: number): Band {
    const from = -this.node.getBoundingClientRect().top;
    const held = (y: number): number => Math.max(0, Math.min(height, Math.round(y * dpr)));
    return [held(from), held(from + window.innerHeight)];
  }

  private columnPxFor(dpr: number): number {
    const coarse = Math.max(2, Math.round(dpr));
    if (this.columnPx > 1) return this.lastMs > SLOW_MS ? Math.min(2 * coarse, 2 * this.columnPx) : this.columnPx;
    return this.lastMs > SLOW_MS ? coarse : 1;
  }

  private resize(layout: Layout, dpr: number, width: number, height: number): void {
    const across = Math.round(layout.width * dpr);
    if (this.node.width !== across || this.node.height !== height) {
      this.node.width = across;
      this.node.height = height;
      this.node.style.width = `${layout.width}px`;
      this.node.style.height = `${layout.height}px`;
    }
    const { px, columnPx } = this;
    if (px?.width !== width || px.height !== height || px.columnPx !== columnPx)
      this.px = new Pixels(width, height, columnPx);
  }

  private fonts(): { ui: string; code: string } {
    const style = getComputedStyle(this.node);
    return { ui: style.fontFamily, code: style.getPropertyValue("--pm-code") };
  }
}

/** The rows of pixels [from, to) in bands that take a few milliseconds each. */
function pieces(from: number, to: number): Band[] {
  const found: Band[] = [];
  for (let at = from; at < to; at += PIECE_PX) found.push([at, Math.min(to, at + PIECE_PX)]);
  return found;
}

/** The edges of the columns in time; each column is `columnPx` device pixels wide, the last may reach out of the plot. */
function columns(scale: Scale, width: number, columnPx: number): Float64Array {
  const n = Math.ceil(width / columnPx);
  const edges = new Float64Array(n + 1);
  const each = ((scale.to - scale.from) / width) * columnPx;
  for (let i = 0; i <= n; i++) edges[i] = scale.from + i * each;
  return edges;
}
