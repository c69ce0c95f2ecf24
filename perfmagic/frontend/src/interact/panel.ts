// What a tab shows below the lanes.
import type { Part } from "./dom.ts";
import type { Layout } from "../model/layout.ts";
import type { Scale } from "../model/scale.ts";
import type { Theme } from "../paint/theme.ts";

export interface Panel extends Part {
  /** Whenever the lanes are painted: with the scale and the layout of these. */
  paint(scale: Scale, layout: Layout, theme: Theme): void;
  /** To the next or previous row; false where there is none. */
  step(by: 1 | -1): boolean;
}
