// Trace files: a document without content, so that nothing goes through the contents API.
import type { App, Context, DocRegistry, DocumentWidget, LuminoWidget, Lumino } from "./jupyter.ts";

export const FACTORY = "Timeline";
const MODEL = "perfmagic-nothing";
const TYPE = "perfmagic-trace";
// those of trace/formats/registry.py but plain .json: JupyterLab itself can only say that they are not UTF-8
const ENDINGS = [
  ".pt.trace.json",
  ".pt.trace.json.gz",
  ".trace.json",
  ".trace.json.gz",
  ".json.gz",
  ".npz",
  ".sqlite",
  ".nsys-rep",
  ".xplane.pb",
];

/** Registers the file type. fill: puts the timeline into a widget, and its button into the toolbar. */
export function addDocuments(
  app: App,
  docs: DocRegistry,
  lumino: Lumino,
  fill: (content: LuminoWidget, made: DocumentWidget) => void,
  created: (made: DocumentWidget) => void,
): void {
  class NoContent extends docs.TextModelFactory {
    get name(): string {
      return MODEL;
    }
    get fileFormat(): null {
      return null; // JupyterLab then asks for the file's size and time only
    }
  }

  class Factory extends docs.ABCWidgetFactory {
    createNewWidget(context: Context): DocumentWidget {
      const content = new lumino.Widget();
      const made = new docs.DocumentWidget({ content, context });
      fill(content, made);
      return made;
    }
  }

  app.docRegistry.addFileType({
    name: TYPE,
    displayName: "Trace",
    extensions: ENDINGS,
    mimeTypes: [],
    contentType: "file",
    fileFormat: null,
  });
  app.docRegistry.addModelFactory(new NoContent(false));
  const factory = new Factory({
    name: FACTORY,
    label: FACTORY,
    modelName: MODEL,
    fileTypes: [TYPE, "json"], // plain .json by "Open With"
    defaultFor: [TYPE],
    readOnly: true,
  });
  factory.widgetCreated.connect((_, made) => created(made));
  app.docRegistry.addWidgetFactory(factory);
}
