// The time axis: from nanoseconds to pixels and back, and where its labels stand.
import { durationLike } from "./units.ts";

export type Window = readonly [number, number];

/** Time [from, to) on [0, width) pixels of the plot. */
export class Scale {
  constructor(
    readonly from: number,
    readonly to: number,
    readonly width: number,
  ) {}

  get pxPerNs(): number {
    return this.width / (this.to - this.from);
  }

  x(at: number): number {
    return (at - this.from) * this.pxPerNs;
  }

  /** Held inside the plot. */
  xIn(at: number): number {
    return Math.max(0, Math.min(this.width, this.x(at)));
  }

  ns(x: number): number {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  /** The edges of n columns in time, n + 1 instants. */
  edges(n: number): Float64Array {
    const edges = new Float64Array(n + 1);
    const width = (this.to - this.from) / n;
    for (let i = 0; i <= n; i++) edges[i] = this.from + i * width;
    return edges;
  }
}

export interface Tick {
  at: number;
  text: string;
}

/** Round instants in [from, to], multiples of 1, 2 or 5, at least so far apart, all in one unit. */
export function ticks(from: number, to: number, width: number, leastGap = 100): Tick[] {
  const raw = ((to - from) * leastGap) / width;
  const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
  const spacing = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * (1 - 1e-9)) ?? 10 * power;
  const found: Tick[] = [];
  const last = Math.floor(to / spacing + 1e-9);
  const unit = Math.max(Math.abs(last * spacing), spacing);
  for (let i = Math.ceil(from / spacing - 1e-9); i <= last; i++) {
    found.push({ at: i * spacing, text: durationLike(i * spacing, spacing, unit) });
  }
  return found;
}

/** A window of the given length or less inside the whole; at least 10 ns long. */
export function held(view: Window, whole: Window): Window {
  const most = whole[1] - whole[0];
  const length = Math.min(most, Math.max(LEAST_WINDOW_NS, view[1] - view[0]));
  const from = Math.max(whole[0], Math.min(whole[1] - length, (view[0] + view[1] - length) / 2));
  return [from, from + length];
}

const LEAST_WINDOW_NS = 10; // below it a pixel is shorter than a device's clock can tell

/** The window zoomed by a factor around an instant that stays where it is. */
export function zoomed(view: Window, factor: number, around: number, whole: Window): Window {
  const length = Math.max(LEAST_WINDOW_NS, Math.min(whole[1] - whole[0], (view[1] - view[0]) * factor));
  const share = (around - view[0]) / (view[1] - view[0]);
  const from = around - share * length;
  return held([from, from + length], whole);
}
