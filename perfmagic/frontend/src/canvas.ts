// The canvas of a view: its size in device pixels, the pixel buffer behind the plot, and one frame.
import type { Frame } from "./draw.ts";
import type { Hits } from "./hits.ts";
import type { Layout } from "./layout.ts";
import { paintPixels, paintWords } from "./paint.ts";
import { Pixels, type Band } from "./pixels.ts";
import { Scale } from "./scale.ts";
import type { State } from "./state.ts";
import type { Model } from "./store.ts";
import { Writer, type Context } from "./text.ts";
import { Palette, type Theme } from "./theme.ts";

const MOST_PIXELS = 16_000; // of a canvas's height: beyond it browsers draw nothing
const SLOW_MS = 9; // a moving frame that took longer is followed by coarser ones

export class Canvas {
  readonly node = document.createElement("canvas");
  /** The instant under the pointer, null while it is elsewhere. */
  pointer: number | null = null;
  lastMs = 0;
  private readonly g: CanvasRenderingContext2D;
  private text: Writer | null = null;
  private px: Pixels | null = null;
  private palette: Palette | null = null;
  private step = 1;

  constructor() {
    // an image is put in every frame: a canvas kept in main memory takes it without a copy
    this.g = this.node.getContext("2d", { willReadFrequently: true })!;
  }

  paint(model: Model, state: State, layout: Layout, hits: Hits | null, theme: Theme, moving: boolean): void {
    const since = performance.now();
    const dpr = Math.min(window.devicePixelRatio || 1, MOST_PIXELS / layout.height);
    const left = Math.round(layout.left * dpr);
    const width = Math.round(layout.plot * dpr);
    const height = Math.round(layout.height * dpr);
    if (this.palette?.theme !== theme) this.palette = new Palette(theme);
    this.step = moving ? this.stepFor(dpr) : 1;
    this.resize(layout, dpr, width, height);
    const scale = new Scale(state.view[0], state.view[1], width / dpr);
    const band = moving ? this.onScreen(dpr, height) : ([0, height] as const);
    const rows = layout.rows.filter((row) => row.y * dpr < band[1] && (row.y + row.h) * dpr > band[0]);
    const frame: Frame = {
      ...{ model, state, layout, rows, hits, scale, dpr, moving, step: this.step },
      palette: this.palette!,
      edges: columns(scale, width, this.step),
      px: this.px!,
      text: (this.text ??= new Writer(this.g as unknown as Context, this.fonts())),
    };
    paintPixels(frame, band);
    const { g } = this;
    g.setTransform(1, 0, 0, 1, 0, 0);
    const [top, bottom] = band;
    g.clearRect(0, top, left, bottom - top);
    g.clearRect(left + width, top, this.node.width, bottom - top);
    g.putImageData(new ImageData(this.px!.bytes(band), width, height), left, 0, 0, top, width, bottom - top);
    g.save();
    g.beginPath();
    g.rect(0, top, this.node.width, bottom - top);
    g.clip(); // words of lanes that keep their old picture would be written over themselves
    g.setTransform(dpr, 0, 0, dpr, left, 0);
    paintWords(frame);
    g.restore();
    this.lastMs = performance.now() - since;
  }

  save(): void {
    const link = document.createElement("a");
    link.download = "timeline.png";
    link.href = this.node.toDataURL("image/png");
    link.click();
  }

  /** The rows of pixels that the window shows: a moving frame paints no others, the frame at rest paints all. */
  private onScreen(dpr: number, height: number): Band {
    const from = -this.node.getBoundingClientRect().top;
    const held = (y: number): number => Math.max(0, Math.min(height, Math.round(y * dpr)));
    return [held(from), held(from + window.innerHeight)];
  }

  private stepFor(dpr: number): number {
    const coarse = Math.max(2, Math.round(dpr));
    if (this.step > 1) return this.lastMs > SLOW_MS ? Math.min(2 * coarse, 2 * this.step) : this.step;
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
    const { px, step } = this;
    if (px?.width !== width || px.height !== height || px.step !== step) this.px = new Pixels(width, height, step);
  }

  private fonts(): { ui: string; code: string } {
    const style = getComputedStyle(this.node);
    const code =
      style.getPropertyValue("--jp-code-font-family").trim() ||
      'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';
    return { ui: style.fontFamily || "Arial, Helvetica, sans-serif", code };
  }
}

/** The edges of the columns in time; each column is `step` device pixels wide, the last may reach out of the plot. */
function columns(scale: Scale, width: number, step: number): Float64Array {
  const n = Math.ceil(width / step);
  const edges = new Float64Array(n + 1);
  const each = ((scale.to - scale.from) / width) * step;
  for (let i = 0; i <= n; i++) edges[i] = scale.from + i * each;
  return edges;
}
