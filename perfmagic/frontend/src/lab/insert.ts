// "Insert %trace": the notebook that was used last gets a cell that opens the same trace.
import { cellSource } from "./cell.ts";
import type { App, AppUtils, LuminoWidget, Lumino, Notebooks } from "./jupyter.ts";

export const INSERT = "Insert %trace";
const TITLE = "Add a cell to the notebook that you used last, which opens this trace";

export function insertButton(lumino: Lumino, press: () => void): LuminoWidget {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "jp-ToolbarButtonComponent perfmagic-insert";
  button.textContent = INSERT;
  button.title = TITLE;
  button.style.color = "var(--jp-ui-font-color1)"; // a button has a colour of its own, black in dark themes too
  button.addEventListener("click", press);
  const node = document.createElement("div");
  node.append(button);
  const made = new lumino.Widget({ node });
  made.addClass("jp-ToolbarButton");
  return made;
}

/** A cell below the active one; the extension is loaded by it where no cell of the notebook does so. */
export function insertTrace(
  path: string,
  kind: "file" | "folder",
  app: App,
  utils: AppUtils,
  notebooks: Notebooks | null,
): void {
  const notebook = notebooks?.currentWidget;
  const cells = notebook?.content.model?.sharedModel;
  if (!notebook || !cells) {
    utils.Notification.info(`No notebook is open here. In a notebook: ${cellSource(relative("", path), kind)}`, {
      autoClose: 10_000,
    });
    return;
  }
  const loads = cells.cells.some((cell) => /^\s*%(re)?load_ext perfmagic/m.test(cell.source));
  const source = cellSource(relative(notebook.context.localPath, path), kind);
  const at = notebook.content.activeCellIndex + 1;
  cells.insertCell(at, { cell_type: "code", source: loads ? source : `%load_ext perfmagic\n${source}` });
  notebook.content.activeCellIndex = at;
  app.shell.activateById(notebook.id);
}

/** A path as a kernel sees it, which starts in the notebook's folder. */
function relative(notebook: string, path: string): string {
  const from = notebook.split("/").slice(0, -1);
  const to = path.split("/");
  let common = 0;
  while (common < from.length && common < to.length - 1 && from[common] === to[common]) common++;
  const way = [...from.slice(common).map(() => ".."), ...to.slice(common)].join("/");
  return way.startsWith("-") || way.startsWith("~") ? `./${way}` : way;
}
