// What the words of a hover card are made of.
import type { Window } from "../model/scale.ts";
import type { Model, Ref } from "../model/store.ts";
import { durationLike } from "../model/units.ts";
import { say } from "../model/words.ts";

export interface DetailRow {
  name: string;
  value: string;
  note: string;
}

export interface Details {
  title: string;
  token: string;
  full: string;
  /** The life of the op to scale: [token, ns]; "queued …" tokens are tints. */
  life: [string, number][];
  rows: DetailRow[];
  foot: string;
}

/** What belongs to several rows of the picture: what it says, and from when to when it ran. */
export interface Kind {
  details(model: Model, row: number): Details;
  span(model: Model, row: number): Window;
  count(model: Model): number;
}

export const KINDS = new Map<Ref["kind"], Kind>();

export function at(model: Model, ns: number): string {
  return durationLike(ns, Math.max(1, 10 ** Math.floor(Math.log10(Math.max(1, model.span))) / 1e4), model.span);
}

export function row(name: string, value: string, note = ""): DetailRow {
  return { name: say(name), value, note };
}

/** A card as one sentence: the name, how long it ran, then backwards how long it was queued and when it was launched. */
export function spokenWords({ title, rows }: Details): string {
  const words = rows.map(({ name, value, note }) => [name, value, note].filter(Boolean).join(" "));
  return [title, ...words.reverse()].join(", ");
}
