// Whose a key is: the timeline's while the pointer is over it or it has the focus, the editor's whenever one is typed in.
import { commandOf, type Command } from "./keys.ts";

const TYPED_IN =
  "input:not([type=checkbox],[type=radio],[type=button],[type=submit]),textarea,select,[role=textbox],[role=combobox]";
const HAS_OWN_KEYS = "[role=menu],[role=dialog],.lm-Menu";
const PRESSED_BY_ENTER = "button,a[href],summary";

/**
 * Listens on the window while events go down: a notebook listens on the document, so a key that is taken here is not seen
 * there. run: obeys a command; false where there is nothing to do, and the key goes on its way.
 */
export function listenForKeys(root: HTMLElement, run: (command: Command) => boolean, signal: AbortSignal): void {
  const pressed = (event: KeyboardEvent): void => {
    const command = commandOf(event);
    if (!command || event.defaultPrevented || event.isComposing) return;
    const target = event.composedPath()[0];
    const focused = target instanceof Element ? target : null;
    if (!addressed(root, focused) || (focused && keeps(focused, event.key)) || !run(command)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  window.addEventListener("keydown", pressed, { capture: true, signal });
}

/** Of several timelines the one under the pointer is meant, then the one with the focus. */
function addressed(root: HTMLElement, focused: Element | null): boolean {
  return root.matches(":hover") || (root.contains(focused) && !document.querySelector(".pm:hover"));
}

/** Whether an element with the focus has a use of its own for a key. */
function keeps(focused: Element, key: string): boolean {
  if ((focused as HTMLElement).isContentEditable || focused.matches(TYPED_IN)) return true;
  return focused.closest(HAS_OWN_KEYS) !== null || (key === "Enter" && focused.closest(PRESSED_BY_ENTER) !== null);
}
