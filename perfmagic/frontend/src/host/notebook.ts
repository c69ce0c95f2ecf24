// In a notebook: anywidget's model gives the data and takes what changed; it replaces the static picture above.
import { mount } from "./mount.ts";
import { notebookTheme } from "./theme.ts";
import type { Host } from "../interact/host.ts";
import type { View } from "../interact/view.ts";

/** What is used of anywidget's model. */
export interface WidgetModel {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, act: () => void): void;
  off(event: string, act: () => void): void;
}

interface Marked {
  name?: string;
  line?: number;
}

export function render(given: { model: WidgetModel; el: HTMLElement }): () => void {
  const { model, el } = given;
  const fallback = new Fallback(el);
  let view: View | null = null;
  let over = false;
  const slot = el.appendChild(document.createElement("div")); // its style is ours: ipywidgets sets that of el, late
  const room = (height: string, overflow: string): void => void Object.assign(slot.style, { height, overflow });
  room("0", "hidden"); // until it is painted: the picture and the view are never seen both
  const host: Host = {
    ...notebookTheme(),
    painted: () => {
      room("", "");
      fallback.hide();
    },
    settled: (window, selection) => {
      const rest = [Math.round(window[0]), Math.round(window[1])];
      const selected = selection ? [Math.round(selection[0]), Math.round(selection[1])] : [];
      if (`${model.get("view_ns")}` === `${rest}` && `${model.get("selected_ns")}` === `${selected}`) return;
      model.set("view_ns", rest);
      model.set("selected_ns", selected);
      model.save_changes();
    },
  };
  const look = (): void => {
    const window = model.get("asked_ns") as number[];
    if (view && window.length === 2) view.act({ do: "look", view: [window[0], window[1]] });
  };
  const mark = (): void => {
    const marked = model.get("marked") as Marked;
    if (!view) return;
    if (marked.line) {
      if (view.state.line !== marked.line) view.act({ do: "line", line: marked.line });
    } else {
      if (view.state.line) view.act({ do: "line", line: view.state.line });
      view.act({ do: "search", query: marked.name ?? "" });
    }
  };
  model.on("change:asked_ns", look);
  model.on("change:marked", mark);
  void mount(slot, model.get("header") as string, bytesOf(model.get("payload")), host).then((made) => {
    if (over) return made?.destroy();
    if (!made) room("", ""); // what went wrong is said in the element
    view = made;
    look();
    mark();
  });
  return () => {
    over = true;
    model.off("change:asked_ns", look);
    model.off("change:marked", mark);
    fallback.restore();
    view?.destroy();
    slot.remove();
  };
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof DataView) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof Uint8Array ? value : new Uint8Array(value as ArrayBuffer);
}

const CELL = ".jp-Cell,.cell,.cell_container"; // JupyterLab, Notebook 7 and Voila; Notebook 6; VS Code
const STATIC = ".perfmagic-static";

/** The output with the static picture that was shown just before this one: hidden while the live one is there. */
class Fallback {
  private hidden: HTMLElement | null = null;

  constructor(private readonly el: HTMLElement) {}

  hide(): void {
    if (!this.el.closest(CELL)) return; // elsewhere it is unknown where the outputs of a cell begin
    for (let at: Element | null = this.el; at && !at.matches(CELL); at = at.parentElement)
      for (let one = at.previousElementSibling; one; one = one.previousElementSibling) {
        const output = one as HTMLElement;
        if (output.dataset["perfmagicLive"] || !(one.matches(STATIC) || one.querySelector(STATIC))) continue;
        this.hidden = output;
        output.dataset["perfmagicLive"] = "1";
        output.style.display = "none";
        return;
      }
  }

  restore(): void {
    if (!this.hidden) return;
    delete this.hidden.dataset["perfmagicLive"];
    this.hidden.style.display = "";
    this.hidden = null;
  }
}
