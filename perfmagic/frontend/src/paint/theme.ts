// Colours, as tokens with a light and a dark value. The same as perfmagic/view/svg/palette.py; a test compares them.

import { CLASS_TOKENS } from "../model/classes.ts";

export type Theme = "light" | "dark";

// prettier-ignore
export const TONES: Record<string, readonly [string, string]> = {
  ground: ["#ffffff", "#111111"], ink: ["#1b1f24", "#e8eaed"], ink2: ["#525a64", "#a9b0b9"], ink3: ["#6a727d", "#8b939e"],
  rule: ["#e3e6ea", "#2b2f34"], grid: ["#eceef1", "#202326"],
  host1: ["#c9ced6", "#4a515b"], host2: ["#dde1e6", "#373d45"], host3: ["#e9ecef", "#2a2f35"], hostink: ["#30363d", "#dfe3e8"],
  launch: ["#7b838e", "#8b939e"], wait: ["#c7282e", "#f4685f"], idle: ["#c7282e", "#f4685f"],
  matrix: ["#24529c", "#4f83dd"], comp: ["#4478bc", "#7aabe6"], comm: ["#d9730d", "#ec8b33"],
  htod: ["#477742", "#58da98"], dtoh: ["#004423", "#35835b"], dtod: ["#2a9fab", "#93d8e0"], memset: ["#6f767f", "#8a9098"],
  unknown: ["#6a727d", "#8b939e"], on_unknown: ["#ffffff", "#0a0d12"],
  on_matrix: ["#ffffff", "#0a0d12"], on_comp: ["#ffffff", "#0a0d12"], on_comm: ["#1f0f00", "#140a00"],
  on_htod: ["#ffffff", "#04120c"], on_dtoh: ["#ffffff", "#ffffff"], on_dtod: ["#04181b", "#04181b"], on_memset: ["#ffffff", "#0a0d12"],
  mem_parameters: ["#483d82", "#8477ca"], mem_optimizer: ["#6b5ea9", "#6250a0"], mem_before: ["#9d9eda", "#524a78"],
  mem_gradients: ["#8e82c4", "#9f97de"], mem_held: ["#9dbcd2", "#63808d"], mem_graph: ["#a7507b", "#b280b3"],
  mem_kept: ["#c48da7", "#785979"], mem_backward: ["#d2cbfc", "#7d62a2"], mem_passing: ["#dfe3e8", "#3f464f"],
  memory: ["#7d72a8", "#9d93c9"], accent: ["#0b63c5", "#6cb0ff"], soft: ["#f5f6f8", "#1a1c1f"], raise: ["#ffffff", "#1c1f23"],
};

const QUEUED = { light: [0.2, 0.32], dark: [0.25, 0.38] } as const;
const ORPHAN = { light: [0.1, 0.14], dark: [0.14, 0.19] } as const;
export const HIDDEN_SHARE = 0.38; // a stave's part that lies under compute
const PREDICTED_SHARE = 0.6; // of the class colour in an op whose time is a prediction
export const DIMMED_SHARE = 0.22; // what is not a hit, and classes switched off

/** A colour as the browser keeps pixels: 0xAABBGGRR, as a signed number. */
export type Pixel = number;

export class Palette {
  /** Whether ops are pale, as predictions are. */
  predicted = false;
  private readonly column: 0 | 1;
  private readonly pixels = new Map<string, Pixel>();

  constructor(readonly theme: Theme) {
    this.column = theme === "light" ? 0 : 1;
  }

  css(token: string): string {
    return TONES[this.predicted && token.startsWith("on_") ? "ink" : token][this.column];
  }

  /** A token as a pixel, laid over the ground with a share of 0 to 1. */
  pixel(token: string, share = 1): Pixel {
    if (this.predicted && share === 1 && (CLASS_TOKENS as readonly string[]).includes(token)) share = PREDICTED_SHARE;
    const key = `${token} ${share}`;
    let found = this.pixels.get(key);
    if (found === undefined) {
      found = mix(channels(this.css(token)), channels(this.css("ground")), share);
      this.pixels.set(key, found);
    }
    return found;
  }

  /** The fill of a queued layer; neighbours (layer even, odd) differ. */
  queued(token: string, layer: number, orphan: boolean, dim = 1): Pixel {
    return this.pixel(token, (orphan ? ORPHAN : QUEUED)[this.theme][layer & 1] * dim);
  }
}

function channels(colour: string): [number, number, number] {
  const number = parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

function mix(colour: number[], ground: number[], share: number): Pixel {
  const [r, g, b] = colour.map((c, i) => Math.round(c * share + ground[i] * (1 - share)));
  return (255 << 24) | (b << 16) | (g << 8) | r;
}
