// From what was sent to a view in an element. What cannot be read is said in the element, in words.
import { buildModel } from "../model/build.ts";
import { View } from "../interact/view.ts";
import { el } from "../interact/dom.ts";
import { RanksView } from "./ranks.ts";
import type { Host } from "../interact/host.ts";
import { decode, inflate } from "../model/decode.ts";
import { parseHeader } from "../model/wire.ts";

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
    return head.ranks ? new RanksView(parent, model, payload, host) : new View(parent, model, host);
  } catch (error) {
    parent.append(el("div", "pm pm-error", `The timeline cannot be drawn: ${(error as Error).message}`));
    return null;
  }
}
