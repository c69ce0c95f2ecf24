// Numbers as people read them: the rules of perfmagic/base/units.py, held equal by shared examples in tests/data/wire.
import { rough, say } from "./words.ts";

export const NBSP = "\u00a0";
type Unit = readonly [string, number];
const TIME: readonly Unit[] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];
const BYTES: readonly Unit[] = [
  ["TB", 1e12],
  ["GB", 1e9],
  ["MB", 1e6],
  ["kB", 1e3],
  ["B", 1],
];

export function duration(ns: number): string {
  return rough ? scaled(Number(ns.toPrecision(2)), TIME, 2) : scaled(ns, TIME);
}

export function size(bytes: number): string {
  return scaled(bytes, BYTES);
}

export function bandwidth(bytes: number, ns: number): string {
  return `${size((bytes / ns) * 1e9)}/s`;
}

/** A length of time with as many decimals as a resolution needs. unitOf: the time whose unit is used. */
export function durationLike(ns: number, resolution: number, unitOf = Math.abs(ns), unit = true): string {
  const [name, factor] = TIME.find(([, f]) => unitOf >= f * 0.9995) ?? TIME[3];
  let decimals = 0;
  while (decimals < 9 && (resolution / factor) * 10 ** decimals < 1 - 1e-9) decimals++;
  const number = thousands((ns / factor).toFixed(decimals));
  return unit ? number + NBSP + name : number;
}

export function count(n: number): string {
  return thousands(Math.round(n).toFixed(0));
}

export function percent(fraction: number): string {
  const number =
    fraction > 0 && fraction < 0.01 ? "<1" : fraction >= 0.995 && fraction < 1 ? ">99" : (fraction * 100).toFixed(0);
  return number + NBSP + "%";
}

export function plural(n: number, one: string, many = one + "s"): string {
  return say(`{n} ${n === 1 ? one : many}`, { n: count(n) });
}

/** So many significant digits and no exponent: 96.04 → "96.0". */
export function significant(value: number, digits = 3): string {
  if (value === 0) return "0";
  let decimals = digits - 1;
  let magnitude = Math.abs(Number(value.toExponential(digits - 1)));
  while (magnitude >= 10 && decimals > 0) {
    magnitude /= 10;
    decimals--;
  }
  while (magnitude < 1 && decimals < 12) {
    magnitude *= 10;
    decimals++;
  }
  return value.toFixed(decimals);
}

/** The mean of a queue's depth. */
export function mean(value: number): string {
  return value >= 9.95 ? count(value) : value >= 0.095 ? significant(value, 2) : value > 0 ? "<0.1" : "0";
}

function scaled(value: number, table: readonly Unit[], digits?: number): string {
  const smallest = table[table.length - 1][0];
  for (const [unit, factor] of table) {
    if (Math.abs(value) >= factor * 0.9995 && unit !== smallest)
      return significant(value / factor, digits) + NBSP + unit;
  }
  return value.toFixed(0) + NBSP + smallest;
}

function thousands(text: string): string {
  const [whole, rest] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? grouped : `${grouped}.${rest}`;
}
