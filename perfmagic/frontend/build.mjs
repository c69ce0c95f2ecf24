// Bundles src/main.ts into ../static/timeline.js. With --check nothing is written: the exit status says whether the
// committed bundle is what the source builds.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const target = fileURLToPath(new URL("../static/timeline.js", import.meta.url));
const made = await build({
  entryPoints: [fileURLToPath(new URL("src/main.ts", import.meta.url))],
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  minify: true,
  legalComments: "none",
  write: false,
});
const text = made.outputFiles[0].text;

if (process.argv.includes("--check")) {
  let committed = "";
  try {
    committed = readFileSync(target, "utf8");
  } catch {
    // absent is as wrong as old
  }
  if (committed !== text) {
    console.error("perfmagic/static/timeline.js is not what the source builds: run `make front` and commit it");
    process.exit(1);
  }
} else {
  writeFileSync(target, text);
  const kB = (bytes) => `${(bytes.length / 1000).toFixed(1)} kB`;
  console.log(`${target}: ${kB(Buffer.from(text))}, ${kB(gzipSync(text, { level: 9 }))} gzipped`);
}
