// Text on the canvas: fonts, fitting, and where words may stand. Names are other people's text: only fillText sees them.

export const SHORTEST = 3; // a label is cut only when this many letters remain

export interface Fonts {
  ui: string;
  code: string;
}

export interface TextOptions {
  size?: number;
  bold?: boolean;
  mono?: boolean;
  align?: "left" | "center" | "right";
  colour: string;
}

/** The part of a canvas context that is used: a recorder in tests has the same. */
export type Context = Pick<
  CanvasRenderingContext2D,
  | "fillText" | "measureText" | "fillRect" | "strokeRect" | "beginPath" | "moveTo" | "lineTo" | "arc" | "stroke" | "fill"
  | "clearRect" | "save" | "restore" | "setLineDash" | "translate" | "rotate" | "roundRect" | "clip" | "rect" | "setTransform" | "putImageData"
> & { font: string; fillStyle: unknown; strokeStyle: unknown; lineWidth: number; globalAlpha: number; textAlign: string; textBaseline: string; lineJoin: string }; // prettier-ignore

const SAMPLE = "communication 0123456789 queued";
const SAMPLE_EM = 15.062; // its width in Arial, and in the fonts made to its measure

export class Writer {
  private readonly widths = new Map<string, Map<string, number>>();

  constructor(
    readonly g: Context,
    private readonly fonts: Fonts,
  ) {}

  /** y is the middle of the line. */
  write(text: string, x: number, y: number, options: TextOptions): void {
    const { g } = this;
    g.font = this.font(options);
    g.fillStyle = options.colour;
    g.textAlign = options.align ?? "left";
    g.textBaseline = "middle";
    g.fillText(text, x, y);
  }

  width(text: string, options: Omit<TextOptions, "colour">): number {
    const known = this.known(options);
    let sum = 0;
    for (const letter of text) sum += this.letter(letter, known, options);
    return sum;
  }

  /** The text, cut with "…" where it is wider than the room, or "" where fewer than three letters would remain. */
  fitted(text: string, room: number, options: Omit<TextOptions, "colour">): string {
    if (room < 8) return "";
    const known = this.known(options);
    const dots = this.letter("…", known, options);
    let used = 0;
    let cut = -1;
    let at = 0;
    for (const letter of text) {
      if (used + dots <= room) cut = at;
      used += this.letter(letter, known, options);
      if (used > room) return cut >= SHORTEST ? text.slice(0, cut) + "…" : "";
      at += letter.length;
    }
    return text;
  }

  /** How wide words are here, as a share of their width in Arial; never less than 1. */
  get fontShare(): number {
    return Math.max(1, this.width(SAMPLE, { size: 100 }) / (100 * SAMPLE_EM));
  }

  private font(options: Omit<TextOptions, "colour">): string {
    return `${options.bold ? "600 " : ""}${options.size ?? 11}px ${options.mono ? this.fonts.code : this.fonts.ui}`;
  }

  private known(options: Omit<TextOptions, "colour">): Map<string, number> {
    const font = this.font(options);
    let known = this.widths.get(font);
    if (!known) this.widths.set(font, (known = new Map<string, number>()));
    return known;
  }

  private letter(letter: string, known: Map<string, number>, options: Omit<TextOptions, "colour">): number {
    let width = known.get(letter);
    if (width === undefined) {
      this.g.font = this.font(options);
      known.set(letter, (width = this.g.measureText(letter).width));
    }
    return width;
  }
}
