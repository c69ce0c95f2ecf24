// The two flags of a small cell: when Python has queued everything, and when the device has finished.
import type { Frame } from "./draw.ts";
import type { Row } from "../model/layout.ts";
import { duration } from "../model/units.ts";

const BESIDE_POLE_PX = 7;
const ROW_PX = 13; // of text: a flag's row holds two
const TWO_ROWS_PX = 2 * ROW_PX;

interface Flag {
  text: string;
  at: number;
  x: number;
}

/** Words beside a pole. top, bottom: the rows that they take, from the lane's upper edge; the pole begins at the top. */
interface Label {
  flag: Flag;
  left: boolean;
  x0: number;
  x1: number;
  top: number;
  bottom: number;
}

/** Poles through all lanes, each with its words beside it; where they are close, the words stand one below the other. */
export function paintFlags(f: Frame, row: Row): void {
  const { g } = f.text;
  const ink = f.palette.css("ink");
  for (const label of placed(f)) {
    const { flag, left, top, bottom } = label;
    g.fillStyle = ink;
    g.fillRect(flag.x, row.y + top, 1, f.layout.height - row.y - top);
    const at = left ? flag.x - BESIDE_POLE_PX + 1 : flag.x + BESIDE_POLE_PX;
    const align = left ? "right" : "left";
    const room = left ? at + f.layout.left : f.scale.width + f.layout.right - at;
    const words = f.text.fitted(flag.text, room, { bold: true });
    const middle = row.y + top + 6;
    const time = duration(flag.at);
    if (bottom - top === TWO_ROWS_PX) {
      f.text.write(words, at, middle, { bold: true, align, colour: ink });
      f.text.write(time, at, middle + ROW_PX, { size: 10, align, colour: f.palette.css("ink2") });
      continue;
    }
    const widths = [f.text.width(words, { bold: true }) + 6, f.text.width(time, { size: 10 }) + 6];
    f.text.write(words, left ? at - widths[1] : at, middle, { bold: true, align, colour: ink });
    const behind = left ? at : at + widths[0];
    f.text.write(time, behind, middle, { size: 10, align, colour: f.palette.css("ink2") });
  }
}

/** Whether a flag's pole stands between two places of the plot. */
export function crossesPole(f: Frame, x0: number, x1: number): boolean {
  return f.model.header.flags.some(({ at }) => f.scale.x(at) >= x0 - 2 && f.scale.x(at) <= x1 + 2);
}

/** The first arrangement in which no words lie over other words or a pole; the last one where there is none. */
function placed(f: Frame): Label[] {
  const seen = f.model.header.flags.map((flag) => ({ ...flag, x: f.scale.x(flag.at) }));
  const flags = seen.filter(({ x }) => x >= 0 && x <= f.scale.width);
  const sides = flags.map(({ x }, i) => i > 0 && i === flags.length - 1 && x > f.scale.width / 2);
  let labels: Label[] = [];
  for (const stacked of [false, true]) {
    for (let choice = 0; choice < 2 ** flags.length; choice++) {
      for (const upwards of stacked ? [false, true] : [false]) {
        labels = flags.map((flag, i) => {
          const place = upwards ? flags.length - 1 - i : i;
          return labelOf(f, flag, sides[i] !== ((choice >> i) % 2 === 1), stacked ? place : -1);
        });
        if (isClear(f, labels)) return labels;
      }
    }
  }
  return labels;
}

/** place: the row of text that the words share with their time, -1 where each has one. */
function labelOf(f: Frame, flag: Flag, left: boolean, place: number): Label {
  const [words, time] = [f.text.width(flag.text, { bold: true }), f.text.width(duration(flag.at), { size: 10 })];
  const width = BESIDE_POLE_PX + (place < 0 ? Math.max(words, time) : words + 6 + time);
  const [x0, x1] = left ? [flag.x - width, flag.x] : [flag.x, flag.x + width];
  const top = Math.max(0, place) * ROW_PX;
  return { flag, left, x0, x1, top, bottom: place < 0 ? TWO_ROWS_PX : top + ROW_PX };
}

function isClear(f: Frame, labels: Label[]): boolean {
  const inside = labels.every(({ x0, x1 }) => x0 >= -f.layout.left && x1 <= f.scale.width + f.layout.right);
  const apart = labels.every((a) =>
    labels.every((b) => {
      if (a === b) return true;
      const meets = a.x0 < b.x1 && b.x0 < a.x1 && a.top < b.bottom && b.top < a.bottom;
      const crossed = b.flag.x > a.x0 && b.flag.x < a.x1 && b.top < a.bottom; // b's pole goes on to the bottom
      return !meets && !crossed;
    }),
  );
  return inside && apart;
}
