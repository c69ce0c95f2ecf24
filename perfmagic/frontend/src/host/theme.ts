// Which theme the page around the timeline has.
import type { Theme } from "../paint/theme.ts";

/** The theme of the page around: the notebook's own word first, then the colours that the page asks for, then the system's. */
export function themeOf(body: HTMLElement, prefersDark: boolean, colorScheme: string): Theme {
  const word = body.dataset["jpThemeLight"];
  if (word) return word === "false" ? "dark" : "light";
  const vscode = body.dataset["vscodeThemeKind"];
  if (vscode) return vscode.includes("light") ? "light" : "dark";
  const html = body.ownerDocument.documentElement.getAttribute("theme") ?? "";
  if (html) return html === "dark" ? "dark" : "light";
  const asked = colorScheme.split(" ").filter((word) => word === "dark" || word === "light");
  if (asked.length === 1) return asked[0] as Theme; // of both the system decides
  return prefersDark ? "dark" : "light";
}
