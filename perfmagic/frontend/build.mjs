// Bundles the modules of ../static: the live timeline, what loads it in a notebook, what tells its frames the theme,
// what sorts tables. With --check nothing is written: the exit status says whether the committed bundles are what the
// source builds.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { OPTIONS } from "./options.mjs";

const MODULES = [
  { entry: "src/main.ts", to: "timeline.js", format: "esm" },
  { entry: "src/loader.ts", to: "loader.js", format: "esm" },
  { entry: "src/frame.ts", to: "frame.js", format: "iife" },
  { entry: "src/tables.ts", to: "tables.js", format: "iife" },
];

for (const { entry, to, format } of MODULES) {
  const target = fileURLToPath(new URL(`../static/${to}`, import.meta.url));
  const made = await build({
    ...OPTIONS,
    entryPoints: [fileURLToPath(new URL(entry, import.meta.url))],
    format,
  });
  const text = made.outputFiles[0].text;
  if (process.argv.includes("--check")) check(target, to, text);
  else write(target, text);
}

function check(target, name, text) {
  let committed = "";
  try {
    committed = readFileSync(target, "utf8");
  } catch {
    // absent is as wrong as old
  }
  if (committed !== text) {
    console.error(`perfmagic/static/${name} is not what the source builds: run \`make front\` and commit it`);
    process.exitCode = 1;
  }
}

function write(target, text) {
  writeFileSync(target, text);
  const kB = (bytes) => `${(bytes.length / 1000).toFixed(1)} kB`;
  console.log(`${target}: ${kB(Buffer.from(text))}, ${kB(gzipSync(text, { level: 9 }))} gzipped`);
}
