// Bundles the modules of ../static: the live timeline, what few results need beside it, what loads both in a notebook,
// what tells its frames the theme, what sorts tables. With --check nothing is written: the exit status says whether the
// committed bundles are what the source builds.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { bundled, shortened } from "./options.mjs";

const SINGLE = [
  { entry: "src/loader.ts", to: "loader.js", format: "esm" },
  { entry: "src/frame.ts", to: "frame.js", format: "iife" },
  { entry: "src/tables.ts", to: "tables.js", format: "iife" },
];
const SHARED = "perfmagicShared"; // by this name more.js, which stands behind timeline.js, finds what it needs there

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The pairs of names in "import{a as b,…}" or "export{b as a,…}". */
const pairs = (text) => [...text.matchAll(/([\w$]+) as ([\w$]+)/g)].map(([, from, to]) => [from, to]);

/** Two texts that one behind the other are one module. As the second imports src/main.ts, that is one chunk. */
async function timelineAndMore() {
  const stdin = { contents: 'import "./src/main.ts"; import "./src/more.ts"', resolveDir: at(".") };
  const entryPoints = [at("src/main.ts")];
  const options = { format: "esm", splitting: true, outdir: at("."), chunkNames: "chunk" };
  const made = await bundled({ ...options, entryPoints, stdin });
  const [body, shared] = made["chunk.js"].split("export{");
  const locals = Object.fromEntries(pairs(shared).map(([local, name]) => [name, local]));
  const [taken, given] = made["main.js"].split("export{").map(pairs);
  const local = Object.fromEntries(taken.map(([name, own]) => [own, locals[name]]));
  const [, imports, more] = /^import\{(.*?)\}from"[^"]*";(.*)/s.exec(made["stdin.js"]);
  const wanted = pairs(imports);
  const kept = wanted.map(([name]) => `${name}:${locals[name]}`);
  const exports = given.map(([own, name]) => `${local[own]} as ${name}`);
  return {
    "timeline.js": await shortened(`${body}const ${SHARED}={${kept}};export{${exports}};`, SHARED),
    "more.js": await shortened(`(()=>{const{${wanted.map((pair) => pair.join(":"))}}=${SHARED};${more}})()`, SHARED),
  };
}

const built = await timelineAndMore();
for (const { entry, to, format } of SINGLE) {
  const [text] = Object.values(await bundled({ entryPoints: [at(entry)], format }));
  built[to] = await shortened(text);
}
for (const [name, text] of Object.entries(built)) {
  if (process.argv.includes("--check")) check(name, text);
  else write(name, text);
}

function check(name, text) {
  let committed = "";
  try {
    committed = readFileSync(at(`../static/${name}`), "utf8");
  } catch {
    // absent is as wrong as old
  }
  if (committed !== text) {
    console.error(`perfmagic/static/${name} is not what the source builds: run \`make front\` and commit it`);
    process.exitCode = 1;
  }
}

function write(name, text) {
  writeFileSync(at(`../static/${name}`), text);
  const kB = (bytes) => `${(bytes.length / 1000).toFixed(1)} kB`;
  console.log(`${name}: ${kB(Buffer.from(text))}, ${kB(gzipSync(text, { level: 9 }))} gzipped`);
}
