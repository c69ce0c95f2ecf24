// A canvas that draws nothing and remembers what it was asked to write.
import type { Context } from "../src/paint/text.ts";

export interface Written {
  text: string;
  x: number;
  y: number;
  font: string;
  colour: unknown;
  align: string;
}

export function recorder(): {
  context: Context;
  written: Written[];
  calls: string[];
  places: [string, number, number][];
} {
  const written: Written[] = [];
  const calls: string[] = [];
  const places: [string, number, number][] = [];
  const state: Record<string, unknown> = { font: "", fillStyle: "", strokeStyle: "" };
  const context = new Proxy(state, {
    get(target, name: string) {
      if (name in target) return target[name];
      if (name === "measureText") return (text: string) => ({ width: text.length * 6 });
      return (...values: unknown[]) => {
        calls.push(name);
        if (typeof values[0] === "number") places.push([name, values[0], values[1] as number]);
        if (name === "fillText") {
          const [text, x, y] = values as [string, number, number];
          written.push({
            text,
            x,
            y,
            font: String(target["font"]),
            colour: target["fillStyle"],
            align: String(target["textAlign"]),
          });
        }
      };
    },
    set(target, name: string, value) {
      target[name] = value;
      return true;
    },
  }) as unknown as Context;
  return { context, written, calls, places };
}
