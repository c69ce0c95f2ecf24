// In a self-contained page: the data stand in script elements that are not run, one pair for each timeline.
import { mount } from "./mount.ts";
import { notebookTheme } from "./theme.ts";
import type { Host } from "../interact/host.ts";

const SLOT = "[data-perfmagic-timeline]";

/** Draws every timeline of the page; the static picture in its slot is replaced when it is painted. */
export function startPage(): void {
  followTheme();
  for (const slot of document.querySelectorAll<HTMLElement>(SLOT)) {
    const header = slot.querySelector<HTMLScriptElement>("script[type='application/json']");
    const payload = slot.querySelector<HTMLScriptElement>("script[type='text/plain']");
    const picture = slot.querySelector<HTMLElement>(".perfmagic-static");
    if (!header || !payload) continue;
    const host: Host = {
      ...notebookTheme(),
      painted: () => {
        if (picture) picture.style.display = "none";
      },
    };
    void mount(slot, header.textContent ?? "", fromBase64(payload.textContent ?? ""), host);
  }
}

/** In a frame of a notebook, whose theme only the notebook knows: src/frame.ts tells it. */
function followTheme(): void {
  if (parent === window) return;
  addEventListener("message", ({ source, data }: MessageEvent<{ jpThemeLight?: string } | null>) => {
    if (source === parent && data?.jpThemeLight) document.body.dataset["jpThemeLight"] = data.jpThemeLight;
  });
  parent.postMessage("perfmagic theme", "*");
}

function fromBase64(text: string): Uint8Array {
  const raw = atob(text.trim());
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
