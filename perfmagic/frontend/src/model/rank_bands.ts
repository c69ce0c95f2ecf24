// Where the bands of a rank's row lie: Python, compute, communication, copies, idle time.
import type { Row } from "./layout.ts";
import type { Rank } from "./store.ts";

// the shares of a row's height; a low row has neither Python nor idle time
const HIGH = { host: 5, compute: 14, comm: 10, copy: 4, idle: 3 };
const LOW = { host: 0, compute: 9, comm: 7, copy: 3, idle: 0 };
const LOW_PX = 30;

export type Band = keyof typeof HIGH;

/** The bands of a row from top to bottom, with their heights. */
export function bands(row: Row): [Band, number][] {
  const parts = Object.entries(row.h > LOW_PX ? HIGH : LOW) as [Band, number][];
  const all = parts.reduce((sum, [, high]) => sum + high, 0);
  return parts.filter(([, high]) => high).map(([name, high]) => [name, (high / all) * row.h]);
}

export function placeOf(row: Row, wanted: Band): [number, number] {
  let y = row.y;
  for (const [name, high] of bands(row)) {
    if (name === wanted) return [y, high];
    y += high;
  }
  return [y, 0];
}

/** Whether a rank receives messages: they get the lower half of its communication. */
export function twoWay(rank: Rank): boolean {
  return rank.got.length + rank.asked.length + rank.askedBeside.length > 0;
}
