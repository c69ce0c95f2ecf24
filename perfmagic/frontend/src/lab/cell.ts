// The cell that opens a trace. A file's name is other people's text: it must never become code.

/** Letters, digits and signs that mean nothing to IPython or to a shell, or nothing within quotes. */
const PLAIN = /^[\p{L}\p{N}_./+@:,= %-]+$/u;

/** `%trace` for plain names. Others stand in a Python literal: an older perfmagic expands `{}` and `$` in a magic. */
export function cellSource(path: string, kind: "file" | "folder"): string {
  if (PLAIN.test(path)) return `%trace ${/[ %]/.test(path) ? `'${path}'` : path}`;
  const open = kind === "file" ? "open_trace" : "open_traces";
  return `import perfmagic\nperfmagic.${open}(${literal(path)})`;
}

/** JSON's strings are Python's, but for characters that end a line or are no text. */
function literal(text: string): string {
  const escaped = (sign: string): string => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(/[\u007f-\u00a0\u2028\u2029]/g, escaped);
}
