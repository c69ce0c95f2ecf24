// The vectors that Python wrote, as models.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import "../src/more.ts";
import { decode, inflate } from "../src/model/decode.ts";
import { buildModel } from "../src/model/build.ts";
import type { Model } from "../src/model/store.ts";
import { parseHeader } from "../src/model/wire.ts";

export const CASES = ["queue", "noise", "gp100", "mi300", "lines"];

const path = (name: string): string => fileURLToPath(new URL(`../../../tests/data/wire/${name}`, import.meta.url));

export function json(name: string): any {
  return JSON.parse(readFileSync(path(name), "utf8"));
}

export function payloadOf(name: string): Uint8Array {
  return new Uint8Array(readFileSync(path(`${name}.payload.zlib`)));
}

export async function modelOf(name: string): Promise<Model> {
  const header = parseHeader(readFileSync(path(`${name}.header.json`), "utf8"));
  const bytes = await inflate(payloadOf(name));
  return buildModel(header, decode(bytes, header.columns));
}
