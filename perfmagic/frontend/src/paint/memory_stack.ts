// The stack of memory: layers over allocations and releases, and the line of the peak.
import type { Layer, MemoryStack } from "../model/memory_stack.ts";
import type { Context } from "./text.ts";
import type { Palette } from "./theme.ts";

export const MEMORY_PX = 190;
const DIMMED = 0.35;

/** lit: the layer that is pointed at, -1 for none: the others are paler. */
export function paintStack(
  g: Context,
  palette: Palette,
  stack: MemoryStack,
  layers: Layer[],
  width: number,
  lit: number,
): void {
  const step = width / stack.length;
  const y = (bytes: number): number => MEMORY_PX * (1 - bytes / Math.max(1, stack.wire.peak_bytes));
  g.fillStyle = palette.css("ground");
  g.fillRect(0, 0, width, MEMORY_PX);
  layers.forEach(({ token, low, high }, i) => {
    g.globalAlpha = lit < 0 || lit === i ? 1 : DIMMED;
    g.fillStyle = palette.css(token);
    for (let column = 0; column < stack.length;) {
      let end = column + 1;
      while (end < stack.length && low[end] === low[column] && high[end] === high[column]) end++;
      const top = y(high[column]);
      const [left, right] = [Math.round(column * step), Math.round(end * step)]; // whole pixels: no seams
      if (high[column] > low[column]) g.fillRect(left, top, right - left, y(low[column]) - top);
      column = end;
    }
  });
  g.globalAlpha = 1;
  g.fillStyle = palette.css("ink");
  const x = (stack.wire.peak_column + 0.5) * step;
  for (let from = 0; from < MEMORY_PX; from += 4) g.fillRect(x, from, 1, 2);
}
