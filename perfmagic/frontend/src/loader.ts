// What a notebook's timelines run: the module that draws is a model of its own, stored once and run once in a page.
import type { WidgetModel } from "./host/notebook.ts";
import { inflate } from "./model/decode.ts";

const REFERENCE = /^IPY_MODEL_/; // how a widget's state names another model

interface Given {
  model: WidgetModel & { widget_manager: { get_model(id: string): Promise<Pick<WidgetModel, "get">> } };
  el: HTMLElement;
}

interface Drawing {
  default: { render(given: Given): () => void };
}

// several kernels of one page may have different versions
const page = globalThis as { perfmagicModules?: Map<string, Promise<Drawing>> };
const modules: Map<string, Promise<Drawing>> = (page.perfmagicModules ??= new Map());

async function render(given: Given): Promise<() => void> {
  try {
    const id = String(given.model.get("module")).replace(REFERENCE, "");
    const shared = await given.model.widget_manager.get_model(id);
    return (await load(shared.get("packed") as string)).default.render(given);
  } catch (error) {
    console.warn("perfmagic: the picture stays, as the module that draws is not there:", error);
    return () => {};
  }
}

function load(packed: string): Promise<Drawing> {
  const found = modules.get(packed) ?? run(packed);
  modules.set(packed, found);
  return found;
}

/** packed: zlib data as base64, which is half of the text and which every kind of model can hold. */
async function run(packed: string): Promise<Drawing> {
  const source = await inflate(Uint8Array.from(atob(packed), (sign) => sign.charCodeAt(0)));
  const url = URL.createObjectURL(new Blob([source as BlobPart], { type: "text/javascript" }));
  return import(url).finally(() => URL.revokeObjectURL(url));
}

export default { render };
