// Bundles src/main.ts into ../static/timeline.js. With --check nothing is written: the exit status says whether the
// committed bundle is what the source builds.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

// The module travels with every widget, so names of properties that only our own code uses are shortened. None of them
// may be a name of the header, of a column, of a trait, of a host, of the browser, or a key that is looked up by text.
const OURS = `palette pixel xIn pxPerNs fitted launchRow innerLine subLane opStream opRow rowPx deepest maxDepth meanDepth
depthAt covered selection busyFrac runAhead folded atLeast addShares prefixSums rowOf longest sinceLaunch sinceStart
launched started pickAt focusOn layoutMade hitsMade cardNode helpNode menuNode showCard showHelp queued stepFor hasName sumsOf
mono bold hatch skyline launchSums startSums depthAtLaunch parts exposed lastStarted startStop blockedNs listenForKeys
stopTheme searching edges scale layout wire
whole hits track tracks runs busy orphan orphans sub subLanes css write names state view node level bytes kind runOf
subLane wide hit stand update query shown expose dress stretches stretchOf endOf rowText classesOf tokenOf busyOf model
classes act dpr ref moving depths glide durations seen shade plot blend sums lastMs faint factor around resized lengths
widths argmax brackets later ask descend over above colour column cls spans blocked header foot life moved step
onScreen streams threads launches groups pile thread cell start end
unseen standing part coarse union`;

const target = fileURLToPath(new URL("../static/timeline.js", import.meta.url));
const made = await build({
  entryPoints: [fileURLToPath(new URL("src/main.ts", import.meta.url))],
  bundle: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  minify: true,
  mangleProps: new RegExp(`^(${OURS.split(/\s+/).join("|")})$`),
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
  console.log(`${target}: ${(Buffer.byteLength(text) / 1000).toFixed(1)} kB`);
}
