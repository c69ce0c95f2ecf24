// What a notebook's timelines run: the module that draws is a model of its own, stored once and run once in a page. What
// few results need beside it is a second one; its text stands behind the first.
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
    const names = given.model.get("more") ? ["module", "more"] : ["module"];
    return (await load(await Promise.all(names.map((name) => stored(given.model, name))))).default.render(given);
  } catch (error) {
    console.warn("perfmagic: the picture stays, as the module that draws is not there:", error);
    return () => {};
  }
}

async function stored(model: Given["model"], name: string): Promise<string> {
  const id = String(model.get(name)).replace(REFERENCE, "");
  return (await model.widget_manager.get_model(id)).get("packed") as string;
}

function load(packed: string[]): Promise<Drawing> {
  const key = packed.join();
  const found = modules.get(key) ?? run(packed);
  modules.set(key, found);
  return found;
}

/** packed: zlib data as base64, which is half of the text and which every kind of model can hold. */
async function run(packed: string[]): Promise<Drawing> {
  const bytes = packed.map((text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)));
  const source = await Promise.all(bytes.map(inflate));
  const url = URL.createObjectURL(new Blob(source as BlobPart[], { type: "text/javascript" }));
  return import(url).finally(() => URL.revokeObjectURL(url));
}

export default { render };
