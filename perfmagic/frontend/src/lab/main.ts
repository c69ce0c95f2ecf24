// A double click on a trace in the file browser of JupyterLab or Notebook 7 opens its live timeline.
import { addDocuments, FACTORY } from "./documents.ts";
import { addFolders, OPEN_FOLDER } from "./folders.ts";
import { insertButton, insertTrace } from "./insert.ts";
import type {
  App,
  Application,
  AppUtils,
  DocRegistry,
  DocumentWidget,
  FileBrowser,
  FileBrowsers,
  LuminoWidget,
  Lumino,
  Notebook,
  Notebooks,
  Restorer,
  Services,
  Toolbar,
} from "./jupyter.ts";
import { accept, type Scope, shared, sharedIfAny } from "./shared.ts";
import { show } from "./show.ts";

const NAME = "perfmagic"; // as in package.json

async function plugin(): Promise<unknown> {
  const lumino = await shared<Lumino>("@lumino/widgets");
  const docs = await shared<DocRegistry>("@jupyterlab/docregistry");
  const services = await shared<Services>("@jupyterlab/services");
  const utils = await shared<AppUtils>("@jupyterlab/apputils");
  const { ILayoutRestorer } = await shared<Application>("@jupyterlab/application");
  const { IFileBrowserFactory } = await shared<FileBrowser>("@jupyterlab/filebrowser");
  const notebook = await sharedIfAny<Notebook>("@jupyterlab/notebook");

  function activate(
    app: App,
    restorer: Restorer | null,
    browsers: FileBrowsers | null,
    notebooks: Notebooks | null,
  ): void {
    const settings = app.serviceManager.serverSettings;
    const paths = new Map<LuminoWidget, string>();
    const documents = new utils.WidgetTracker({ namespace: NAME });
    const folders = new utils.WidgetTracker({ namespace: `${NAME}-folders` });

    function fill(
      content: LuminoWidget,
      made: LuminoWidget & { toolbar: Toolbar },
      path: () => string,
      kind: "file" | "folder",
      ready: Promise<void>,
    ): void {
      const over = new AbortController();
      content.addClass("perfmagic-document");
      made.toolbar.addItem(
        "perfmagic-insert",
        insertButton(lumino, () => insertTrace(path(), kind, app, utils, notebooks)),
      );
      void show(content.node, { path, ready, services, settings }, over.signal);
      const dispose = made.dispose.bind(made);
      made.dispose = () => {
        over.abort();
        paths.delete(made);
        dispose();
      };
    }

    addDocuments(
      app,
      docs,
      lumino,
      (content, made) => fill(content, made, () => made.context.localPath, "file", made.context.ready),
      (made) => void documents.add(made),
    );
    addFolders(app, utils, lumino, browsers, (content, made, path) => {
      fill(content, made, () => path, "folder", Promise.resolve());
      paths.set(made, path);
      void folders.add(made);
    });
    void restorer?.restore(documents, {
      command: "docmanager:open",
      args: (made: DocumentWidget) => ({ path: made.context.path, factory: FACTORY }),
      name: (made: DocumentWidget) => made.context.path,
    });
    void restorer?.restore(folders, {
      command: OPEN_FOLDER,
      args: (made: LuminoWidget) => ({ path: paths.get(made) }),
      name: (made: LuminoWidget) => paths.get(made),
    });
  }

  return {
    id: `${NAME}:timeline`,
    description: "Opens traces of torch.profiler as live timelines.",
    autoStart: true,
    optional: [ILayoutRestorer, IFileBrowserFactory, notebook?.INotebookTracker].filter(Boolean),
    activate,
  };
}

interface Container {
  init(scope: Scope): void;
  get(module: string): Promise<() => unknown>;
}

const page = window as unknown as { _JUPYTERLAB?: Record<string, Container> };
(page._JUPYTERLAB ??= {})[NAME] = {
  init: accept,
  async get(module) {
    if (module !== "./extension") throw new Error(`${NAME} has no module ${module}`);
    const exports = { __esModule: true, default: await plugin() };
    return () => exports;
  },
};
