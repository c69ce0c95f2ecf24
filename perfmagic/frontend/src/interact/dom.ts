// Elements without markup: text from traces only ever becomes a text node.
import type { State } from "../model/state.ts";

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  cls = "",
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  node.append(...children);
  return node;
}

export function button(
  words: string,
  title: string,
  act: () => void,
  signal: AbortSignal,
  cls = "pm-button",
): HTMLButtonElement {
  const node = el("button", cls, words);
  node.type = "button";
  node.title = title;
  node.addEventListener("click", act, { signal });
  return node;
}

/** A patch of colour; of a wait hatched, in grey where the device is busy. second: that of its lower half. */
export function swatch(token: string, cls = "pm-swatch", second = ""): HTMLElement {
  const node = el("i", cls);
  if (token === "wait") node.classList.add("pm-lost");
  else if (token === "ink3") node.classList.add("pm-lost", "pm-grey");
  else
    node.style.background = second
      ? `linear-gradient(var(--pm-${token}) 50%, var(--pm-${second}) 50%)`
      : `var(--pm-${token})`;
  return node;
}

/** An element that follows the state. */
export interface Part {
  node: HTMLElement;
  update(state: State): void;
}
