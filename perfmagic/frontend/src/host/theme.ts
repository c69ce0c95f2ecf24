// Which theme the page around the timeline has.
import type { Host } from "../interact/host.ts";
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

/** The theme of the page around, now and whenever it changes. */
export function notebookTheme(): Pick<Host, "theme" | "onTheme"> {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (): Theme => themeOf(document.body, dark.matches, getComputedStyle(document.body).colorScheme);
  return {
    theme,
    onTheme(changed) {
      let last = theme();
      const look = (): void => {
        const now = theme();
        if (now !== last) changed();
        last = now;
      };
      // hosts say their theme in a class, a style or an attribute of their own
      const watch = new MutationObserver(look);
      for (const node of [document.body, document.documentElement]) watch.observe(node, { attributes: true });
      dark.addEventListener("change", look);
      return () => {
        watch.disconnect();
        dark.removeEventListener("change", look);
      };
    },
  };
}
