// What is used of JupyterLab, and no more: its own types come with 100 MB of packages.

export interface Signal<S, A> {
  connect(slot: (sender: S, args: A) => void): void;
}

export interface Settings {
  baseUrl: string;
}

export interface Context {
  readonly path: string;
  readonly localPath: string;
  readonly ready: Promise<void>;
}

export interface LuminoWidget {
  readonly node: HTMLElement;
  id: string;
  readonly title: { label: string; caption: string; closable: boolean };
  addClass(name: string): void;
  dispose(): void;
}

export interface Toolbar {
  addItem(name: string, widget: LuminoWidget): boolean;
}

export interface DocumentWidget extends LuminoWidget {
  readonly context: Context;
  readonly toolbar: Toolbar;
}

export interface MainAreaWidget extends LuminoWidget {
  readonly toolbar: Toolbar;
}

export interface Commands {
  addCommand(id: string, options: Record<string, unknown>): void;
}

export interface App {
  readonly serviceManager: {
    readonly serverSettings: Settings;
    readonly contents: { localPath(path: string): string };
  };
  readonly docRegistry: {
    addFileType(type: Record<string, unknown>): void;
    addModelFactory(factory: unknown): void;
    addWidgetFactory(factory: unknown): void;
  };
  readonly commands: Commands;
  readonly contextMenu: { addItem(options: Record<string, unknown>): void };
  readonly shell: {
    add(widget: LuminoWidget, area: string): void;
    activateById(id: string): void;
  };
}

export interface Lumino {
  Widget: new (options?: { node?: HTMLElement }) => LuminoWidget;
}

export interface DocRegistry {
  ABCWidgetFactory: new (options: Record<string, unknown>) => {
    readonly widgetCreated: Signal<unknown, DocumentWidget>;
  };
  DocumentWidget: new (options: { content: LuminoWidget; context: Context }) => DocumentWidget;
  TextModelFactory: new (collaborative?: boolean) => object;
}

export interface Services {
  ServerConnection: { makeRequest(url: string, init: RequestInit, settings: Settings): Promise<Response> };
}

export interface Tracker {
  add(widget: LuminoWidget): Promise<void>;
}

export interface AppUtils {
  WidgetTracker: new (options: { namespace: string }) => Tracker;
  MainAreaWidget: new (options: { content: LuminoWidget }) => MainAreaWidget;
  Notification: { info(words: string, options?: { autoClose: number }): void };
}

export interface Application {
  ILayoutRestorer: unknown;
}

export interface Restorer {
  restore(tracker: Tracker, options: Record<string, unknown>): Promise<unknown>;
}

export interface FileBrowser {
  IFileBrowserFactory: unknown;
}

export interface FileBrowsers {
  readonly tracker: {
    readonly currentWidget: { selectedItems(): Iterable<{ type: string; path: string }> } | null;
  };
}

export interface Notebook {
  INotebookTracker: unknown;
}

interface Cells {
  readonly cells: readonly { readonly source: string }[];
  insertCell(at: number, cell: { cell_type: "code"; source: string }): unknown;
}

export interface Notebooks {
  readonly currentWidget: {
    readonly id: string;
    readonly context: Context;
    readonly content: { activeCellIndex: number; readonly model: { readonly sharedModel: Cells } | null };
  } | null;
}
