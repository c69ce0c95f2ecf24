// A frame without a browser: real pixels, recorded words.
import type { Frame } from "../src/paint/draw.ts";
import { hitsOf } from "../src/model/hits.ts";
import { layoutOf } from "../src/model/layout.ts";
import { paintPixels, paintWords } from "../src/paint/paint.ts";
import { Pixels } from "../src/paint/pixels.ts";
import { Scale } from "../src/model/scale.ts";
import { initial, type State } from "../src/model/state.ts";
import type { Model } from "../src/model/store.ts";
import { Writer } from "../src/paint/text.ts";
import { Palette, type Theme } from "../src/paint/theme.ts";
import { recorder, type Written } from "./recorder.ts";

export interface Painted {
  frame: Frame;
  written: Written[];
  calls: string[];
  /** Each call with numbers: its name and the first two. */
  places: [string, number, number][];
}

export function painted(model: Model, changes: Partial<State> = {}, width = 1000, theme: Theme = "light"): Painted {
  const state: State = { ...initial(model.span), ...changes };
  const layout = layoutOf(model, state, width);
  const { context, written, calls, places } = recorder();
  const scale = new Scale(state.view[0], state.view[1], layout.plot);
  const frame: Frame = {
    ...{ model, state, layout, rows: layout.rows, scale, dpr: 1, columnPx: 1, moving: false },
    hits: hitsOf(model, state),
    palette: new Palette(theme),
    edges: scale.edges(layout.plot),
    px: new Pixels(layout.plot, Math.round(layout.height), 1),
    text: new Writer(context, { ui: "Arial", code: "monospace" }),
  };
  paintPixels(frame, [0, frame.px.height]);
  paintWords(frame);
  return { frame, written, calls, places };
}

/** How many pixels of a column inside a row have a colour. */
export function inked(frame: Frame, kind: string, x: number, colour: number, index = 0): number {
  const row = frame.layout.rows.find((r) => r.kind === kind && r.index === index)!;
  let found = 0;
  for (let y = row.y; y < row.y + row.h; y++) if (frame.px.at(x, y) === colour) found++;
  return found;
}
