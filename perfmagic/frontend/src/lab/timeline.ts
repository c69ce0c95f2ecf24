// The timeline in a tab of its own, loaded with the first trace. No kernel is notified; the theme is Jupyter's.
import "../more.ts";
import { mount } from "../host/mount.ts";
import { notebookTheme } from "../host/theme.ts";
import type { View } from "../interact/view.ts";

export function openIn(parent: HTMLElement, header: string, payload: Uint8Array): Promise<View | null> {
  return mount(parent, header, payload, notebookTheme());
}
