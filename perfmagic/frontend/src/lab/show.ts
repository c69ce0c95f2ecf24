// What stands in a tab: how far the reading is, then the timeline, or why there is none.
import { fetchWire, Refused, type Progress } from "./fetching.ts";
import type { Services, Settings } from "./jupyter.ts";

declare const TIMELINE_MODULE: string; // its name holds a hash of its text: Jupyter lets browsers keep such files for a year

const home = (document.currentScript as HTMLScriptElement).src; // known only while this script runs for the first time
const MEGABYTE = 1e6;

interface Timeline {
  openIn(parent: HTMLElement, header: string, payload: Uint8Array): Promise<{ destroy(): void } | null>;
}

export interface Asked {
  /** Where the file or folder lies for the server, known after `ready`. */
  path: () => string;
  ready: Promise<void>;
  services: Services;
  settings: Settings;
}

/** Fills an element, until the signal ends it. */
export async function show(node: HTMLElement, asked: Asked, signal: AbortSignal): Promise<void> {
  Object.assign(node.style, {
    overflow: "auto",
    padding: "8px 12px",
    boxSizing: "border-box",
    color: "var(--jp-ui-font-color1)",
    background: "var(--jp-layout-color1)",
  });
  node.textContent = "Reading the trace …";
  try {
    await asked.ready;
    const timeline = import(new URL(TIMELINE_MODULE, home).href) as Promise<Timeline>;
    const told = (progress: Progress): void => void (node.textContent = progressWords(progress));
    const wire = await fetchWire(asked.path(), asked.services, asked.settings, signal, told);
    const { openIn } = await timeline;
    if (signal.aborted) return;
    node.textContent = "";
    const view = await openIn(node, wire.header, wire.payload);
    if (signal.aborted) view?.destroy();
    else signal.addEventListener("abort", () => view?.destroy());
  } catch (error) {
    if (!signal.aborted) node.replaceChildren(trouble(error as Error));
  }
}

function progressWords({ waits, size_bytes, seconds, files, of }: Progress): string {
  const size = `${(size_bytes / MEGABYTE).toFixed(1)} MB`;
  if (waits) return `Waiting for other traces to be read … (${size})`;
  const count = of > 1 ? `: ${files} of ${of} files` : "";
  return `Reading ${size}${count} … ${seconds.toFixed(0)} s`;
}

function trouble(error: Error): HTMLElement {
  const box = document.createElement("div");
  box.className = "perfmagic-trouble";
  box.setAttribute("role", "alert");
  const lines = ["This does not open as a timeline", error.message];
  if (error instanceof Refused && error.hint) lines.push(`Hint: ${error.hint}`);
  for (const [i, words] of lines.entries()) {
    const line = document.createElement(i ? "p" : "b");
    line.textContent = words;
    box.append(line);
  }
  return box;
}
