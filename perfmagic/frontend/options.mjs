// What every bundle is built with: esbuild joins the modules, and terser, whose text packs smaller, shortens them.
import { build } from "esbuild";
import { minify } from "terser";

const OPTIONS = {
  bundle: true,
  target: "es2022",
  charset: "utf8",
  minify: true,
  legalComments: "none",
  write: false,
};

/** The files that esbuild makes, by name, each as text. */
export async function bundled(options) {
  const made = await build({ ...OPTIONS, ...options });
  return Object.fromEntries(made.outputFiles.map(({ path, text }) => [path.replace(/.*[\\/]/, ""), text]));
}

/** shared: a name that another text uses, too. */
export async function shortened(text, shared = "") {
  const options = { module: true, ecma: 2022, compress: { top_retain: shared }, mangle: { reserved: [shared] } };
  const made = await minify(text, options);
  return `${made.code}\n`;
}
