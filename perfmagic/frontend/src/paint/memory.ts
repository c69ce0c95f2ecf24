// Allocated memory over time, as high as its share of the peak.
import type { Row } from "../model/layout.ts";
import { upTo } from "../model/sorted.ts";
import { duration, size } from "../model/units.ts";
import { NONE, type RowText } from "./gutters.ts";
import { bar, type Frame } from "./draw.ts";
import { say } from "../model/words.ts";

export function paintMemory(f: Frame, row: Row): void {
  const lane = f.model.memory[row.index];
  const colour = f.palette.pixel("memory", 0.55);
  const edge = f.palette.pixel("memory");
  const n = f.edges.length - 1;
  let at = upTo(lane.at, f.edges[0]);
  let value = at ? lane.bytes[at - 1] : lane.bytes[0];
  for (let i = 0; i < n; i++) {
    let most = value;
    while (at < lane.at.length && lane.at[at] <= f.edges[i + 1]) {
      value = lane.bytes[at++];
      if (value > most) most = value;
    }
    const y = row.y + row.h - (most / Math.max(1, lane.peak)) * (row.h - 10);
    bar(f, i, y, row.y + row.h, colour);
    bar(f, i, y, y + 1, edge);
  }
}

export function memoryText(f: Frame, row: Row): RowText {
  const { peak } = f.model.memory[row.index];
  return { ...NONE, label: say("memory"), number: size(peak), unit: say("peak") };
}

export function writeMemory(f: Frame, row: Row): void {
  const lane = f.model.memory[row.index];
  const at = lane.at[lane.bytes.indexOf(lane.peak)];
  const x = f.scale.x(at);
  if (x < 0 || x > f.scale.width) return;
  const { g } = f.text;
  g.fillStyle = f.palette.css("ink");
  g.beginPath();
  g.arc(x, row.y + 10, 2.5, 0, 7);
  g.fill();
  const words = say("peak, {time}", { time: duration(at) });
  const left = x + 8 + f.text.width(words, { size: 10 }) > f.scale.width;
  f.text.write(words, left ? x - 7 : x + 7, row.y + 4, {
    size: 10,
    align: left ? "right" : "left",
    colour: f.palette.css("ink2"),
  });
}

export function writeReserved(f: Frame): void {
  for (const row of f.layout.right ? f.rows : []) {
    if (row.kind !== "memory") continue;
    const { reserved } = f.model.memory[row.index];
    const words = say("{size} reserved", { size: size(reserved) });
    if (reserved)
      f.text.write(words, f.scale.width + 8, row.y + row.h - 6, { size: 10, colour: f.palette.css("ink2") });
  }
}
