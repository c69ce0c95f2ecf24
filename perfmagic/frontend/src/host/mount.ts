// From what was sent to a view in an element. What cannot be read is said in the element, in words.
import { el } from "../interact/dom.ts";
import type { Host } from "../interact/host.ts";
import { View } from "../interact/view.ts";
import { buildModel } from "../model/build.ts";
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
    return new View(parent, buildModel(head, decode(await inflate(payload), head.columns)), host);
  } catch (error) {
    parent.append(el("div", "pm pm-error", `The timeline cannot be drawn: ${(error as Error).message}`));
    return null;
  }
}
