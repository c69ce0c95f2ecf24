// In the strip of the lines tab: the ops of a line's backward, outlined in their lanes.
import { tellingRow } from "../model/telling.ts";
import type { Frame } from "./draw.ts";
import { boxes, outline } from "./line_strips.ts";

export function paintBackward(f: Frame): void {
  if (f.state.tab !== "lines") return;
  const row = tellingRow(f.model, f.state);
  if (row < 0) return;
  for (const lane of f.rows) {
    if (lane.kind !== "lane") continue;
    const spans = f.model.lines!.backwardOn(row, lane.index);
    outline(f.text.g, f.palette.css("comp"), boxes(spans, f.scale), lane.y, lane.h);
  }
}
