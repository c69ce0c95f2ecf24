// The script beside the frames of `display html`: they are sandboxed, and so do not see which theme the notebook has.
import { notebookTheme } from "./host/theme.ts";

const { theme, onTheme } = notebookTheme();

function tell(): void {
  const message = { jpThemeLight: String(theme() === "light") };
  for (const frame of document.querySelectorAll<HTMLIFrameElement>("iframe[data-perfmagic-frame]"))
    frame.contentWindow?.postMessage(message, "*"); // to the frame of a page without an origin
}

onTheme(tell);
addEventListener("message", ({ data }) => data === "perfmagic theme" && tell());
tell();
