// The only difference between a notebook and a page: where the theme comes from and who is notified of changes.
import type { Window } from "../model/scale.ts";
import type { Theme } from "../paint/theme.ts";

export interface Host {
  theme(): Theme;
  /** Calls back whenever the theme may have changed; gives what stops it. */
  onTheme(changed: () => void): () => void;
  /** After the first frame is painted. */
  painted?(): void;
  /** The window has changed, on its way to rest or not. */
  looked?(view: Window): void;
  /** Rows of ranks were opened or closed. */
  opened?(ranks: readonly number[]): void;
  /** The view has come to rest. */
  settled?(view: Window, selection: Window | null): void;
}
