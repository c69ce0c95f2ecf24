// The classes of device ops: OpClass in perfmagic/trace/names.py, and the colour token of each.
import { term } from "./words.ts";

export const MATRIX = 0;
export const COMPUTE = 1;
export const COMM = 2;
export const HTOD = 3;
export const DTOH = 4;
export const DTOD = 5;
export const PTOP = 6;
export const MEMSET = 7;
export const UNKNOWN = 8;
export const CLASSES = 9;

/** The colour of each class of device ops, in the order of OpClass. */
export const CLASS_TOKENS = ["matrix", "comp", "comm", "htod", "dtoh", "dtod", "dtod", "memset", "unknown"] as const;

/** Classes that belong to one switch in the key. */
export const KEY_CLASSES: readonly { words: string; token: string; classes: readonly number[] }[] = [
  { words: term("matrix kernels"), token: "matrix", classes: [MATRIX] },
  { words: term("other kernels"), token: "comp", classes: [COMPUTE] },
  { words: term("communication"), token: "comm", classes: [COMM] },
  { words: term("copy HtoD"), token: "htod", classes: [HTOD] },
  { words: term("DtoH"), token: "dtoh", classes: [DTOH] },
  { words: term("DtoD"), token: "dtod", classes: [DTOD, PTOP] },
  { words: term("memset"), token: "memset", classes: [MEMSET] },
  { words: term("time unknown"), token: "unknown", classes: [UNKNOWN] },
];
