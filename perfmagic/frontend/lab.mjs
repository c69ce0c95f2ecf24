// Builds the extension of JupyterLab and Notebook 7 into ../labextension: a container of a few kB, and beside it the
// timeline, which is loaded with the first trace. Jupyter lets browsers keep what lies in static/ for a year, so names
// there hold a hash of the text. With --check nothing is written, as in build.mjs.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { bundled, shortened } from "./options.mjs";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const target = at("../labextension/");

async function bundle(entry, options) {
  const [joined] = Object.values(await bundled({ ...options, entryPoints: [at(entry)] }));
  const text = await shortened(joined);
  return { text, hash: createHash("sha256").update(text).digest("hex").slice(0, 16) };
}

async function files() {
  const timeline = await bundle("src/lab/timeline.ts", { format: "esm" });
  const timelineName = `timeline.${timeline.hash}.js`;
  const define = { TIMELINE_MODULE: JSON.stringify(timelineName) };
  const container = await bundle("src/lab/main.ts", { format: "iife", define });
  const containerName = `remoteEntry.${container.hash}.js`;
  const about = {
    name: "perfmagic",
    version: /__version__ = "(.*)"/.exec(readFileSync(at("../__init__.py"), "utf8"))[1],
    description: "Opens traces of torch.profiler as live timelines",
    license: "BSD-3-Clause",
    jupyterlab: { extension: true, _build: { load: `static/${containerName}`, extension: "./extension" } },
  };
  const install = {
    packageManager: "python",
    packageName: "perfmagic",
    uninstallInstructions: "pip uninstall perfmagic",
  };
  const json = (value) => `${JSON.stringify(value, null, 2)}\n`;
  return {
    "package.json": json(about),
    "install.json": json(install),
    [`static/${containerName}`]: container.text,
    [`static/${timelineName}`]: timeline.text,
  };
}

function isCurrent(wanted) {
  try {
    const there = readdirSync(target, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
    if (there.length !== Object.keys(wanted).length) return false;
    return Object.entries(wanted).every(([name, text]) => readFileSync(target + name, "utf8") === text);
  } catch {
    return false; // absent is as wrong as old
  }
}

function write(wanted) {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(`${target}static`, { recursive: true });
  for (const [name, text] of Object.entries(wanted)) {
    writeFileSync(target + name, text);
    console.log(`${target}${name}: ${(Buffer.byteLength(text) / 1000).toFixed(1)} kB`);
  }
}

const wanted = await files();
if (!process.argv.includes("--check")) write(wanted);
else if (!isCurrent(wanted)) {
  console.error("perfmagic/labextension is not what the source builds: run `make front` and commit it");
  process.exitCode = 1;
}
