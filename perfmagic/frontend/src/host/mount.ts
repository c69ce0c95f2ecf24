// From what was sent to a view in an element. What cannot be read is said in the element, in words.
import { buildModel } from "../model/build.ts";
import { View } from "../interact/view.ts";
import { el } from "../interact/dom.ts";
import type { Host } from "../interact/host.ts";
import { decode, inflate } from "../model/decode.ts";
import type { Model } from "../model/store.ts";
import { parseHeader } from "../model/wire.ts";

type RanksView = new (parent: HTMLElement, model: Model, payload: Uint8Array, host: Host) => View;
export const VIEWS: { ranks?: RanksView } = {};

export async function mount(
  parent: HTMLElement,
  header: string,
  payload: Uint8Array,
  host: Host,
): Promise<View | null> {
  try {
    const head = parseHeader(header);
    const overview = head.ranks ? payload.subarray(0, head.overview_bytes) : payload;
    const model = buildModel(head, decode(await inflate(overview), head.columns));
    return head.ranks ? new VIEWS.ranks!(parent, model, payload, host) : new View(parent, model, host);
  } catch (error) {
    parent.append(el("div", "pm pm-error", `The timeline cannot be drawn: ${(error as Error).message}`));
    return null;
  }
}
