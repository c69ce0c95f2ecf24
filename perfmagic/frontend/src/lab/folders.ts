// "Open as timeline of ranks" in the menu of a folder.
import type { App, AppUtils, FileBrowsers, LuminoWidget, Lumino, MainAreaWidget } from "./jupyter.ts";

export const OPEN_FOLDER = "perfmagic:open-folder";
const FOLDER = '.jp-DirListing-item[data-isdir="true"]';

export function addFolders(
  app: App,
  utils: AppUtils,
  lumino: Lumino,
  browsers: FileBrowsers | null,
  fill: (content: LuminoWidget, made: MainAreaWidget, path: string) => void,
): void {
  const hasTabs = !isNotebook7();
  const open = (path: string): LuminoWidget => {
    const content = new lumino.Widget();
    const made = new utils.MainAreaWidget({ content });
    made.id = `perfmagic-folder-${path}`;
    const name = path.split("/").pop() || path;
    Object.assign(made.title, { label: name, caption: `${path}: timeline of ranks`, closable: true });
    fill(content, made, path);
    app.shell.add(made, "main");
    app.shell.activateById(made.id);
    return made;
  };
  app.commands.addCommand(OPEN_FOLDER, {
    label: "Open as Timeline of Ranks",
    caption: "One trace file for each rank of a job, on one axis",
    isVisible: () => hasTabs,
    execute: (given: { path?: string }) => {
      const selected = [...(browsers?.tracker.currentWidget?.selectedItems() ?? [])];
      const path = given.path ?? selected.find((one) => one.type === "directory")?.path;
      return path ? open(app.serviceManager.contents.localPath(path)) : null;
    },
  });
  app.contextMenu.addItem({ command: OPEN_FOLDER, selector: FOLDER, rank: 4 });
}

/** Notebook 7 has no tabs: what is added to its tree is never seen. Its pages say which of its pages they are. */
function isNotebook7(): boolean {
  const settings = document.getElementById("jupyter-config-data")?.textContent ?? "{}";
  return "notebookPage" in (JSON.parse(settings) as object);
}
