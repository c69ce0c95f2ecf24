// Lane names at the left, numbers at the right, brackets at the far left: every lane is a row of a table.
import { COMM, DTOD, DTOH, HTOD, PTOP } from "../model/classes.ts";
import { pileView } from "../model/crop.ts";
import type { Row, RowKind } from "../model/layout.ts";
import { below } from "../model/sorted.ts";
import { isWhole } from "../model/state.ts";
import type { Stream } from "../model/store.ts";
import { mainClass } from "../model/totals.ts";
import { count, duration, mean, percent, plural } from "../model/units.ts";
import type { Frame } from "./draw.ts";
import { say, term } from "../model/words.ts";

export interface RowText {
  label: string;
  /** Smaller, below or instead of the label. */
  sub: string;
  number: string;
  /** Smaller, after the number. */
  unit: string;
}

export const TEXTS = new Map<RowKind, (f: Frame, row: Row) => RowText>();

export const NONE: RowText = { label: "", sub: "", number: "", unit: "" };
const NOTES: Record<number, string> = {
  [COMM]: term("communication"),
  [HTOD]: "HtoD",
  [DTOH]: "DtoH",
  [DTOD]: "DtoD",
  [PTOP]: "PtoP",
};

/** What is shown beside a lane for the window in view. */
export function rowText(f: Frame, row: Row): RowText {
  const { model, state } = f;
  const [from, to] = state.view;
  switch (row.kind) {
    case "overview":
      return { ...NONE, label: say("trace"), number: duration(model.span), unit: say("in total") };
    case "cell":
      return { ...NONE, label: say("cell line") };
    case "thread": {
      const { label, levels } = model.threads[row.index];
      return { ...NONE, label, sub: levels.length > row.sub ? `▸ ${plural(levels.length, "level")}` : "" };
    }
    case "launches": {
      const { launches } = model;
      if (!launches) return { ...NONE, label: say("blocked") };
      const { start } = launches.track;
      const n = below(start, to) - below(start, from);
      return { ...NONE, label: say("launches"), number: plural(n, "launch", "launches") };
    }
    case "pile":
      return pileText(f, row, model.streams[row.index]);
    case "lane": {
      const stream = model.streams[row.index];
      const busy = isWhole(state) ? stream.wire.busy_frac : stream.busy.covered(from, to) / (to - from);
      const note = say(NOTES[mainClass(stream)] ?? "");
      return {
        label: say("stream {stream}", { stream: stream.wire.stream }),
        sub: "",
        number: say("{share} busy", { share: percent(busy) }),
        unit: note,
      };
    }
    case "stave": {
      const stave = model.groups[row.index].staves[row.sub];
      const bare = stave.exposed?.covered(from, to) ?? 0;
      const active = stave.active.covered(from, to);
      const exposed =
        bare >= active * 0.999 ? say("exposed") : say("{time} exposed", { time: bare ? duration(bare) : "0" });
      return {
        label: say(stave.name),
        sub: "",
        number: duration(active),
        unit: stave.exposed && active ? exposed : "",
      };
    }
    default:
      return TEXTS.get(row.kind)?.(f, row) ?? NONE;
  }
}

function pileText(f: Frame, row: Row, stream: Stream): RowText {
  const view = pileView(stream, f.scale.from, f.scale.to, row.h);
  const deepest = `≤ ${count(view.deepest)}`;
  const cropped =
    view.rows < view.deepest ? say("next {n} of {all}", { n: count(view.rows), all: count(view.deepest) }) : deepest;
  if (row.h > 30) {
    const depth = stream.pile.meanDepth(f.scale.from, f.scale.to);
    return { label: say("queued"), sub: cropped, number: say("mean {n}", { n: mean(depth) }), unit: say("queued") };
  }
  return row.h > 12 ? { ...NONE, sub: say("{n} queued", { n: deepest }) } : NONE;
}

export function writeGutters(f: Frame): void {
  for (const row of f.rows) {
    const text = rowText(f, row);
    writeLabel(f, row, text);
    if (f.layout.right) writeNumber(f, row, text);
  }
  writeHeadings(f);
  if (f.layout.left) writeBrackets(f);
}

function middleOf(row: Row): number {
  return row.kind === "thread" ? row.y + 5.5 : row.y + row.h / 2 + 0.5;
}

/** In a narrow view: a stream's name above its pile, where it has one. */
function writeAbove(f: Frame, row: Row, text: RowText): void {
  const beside = f.layout.rows.some((other) => other.kind === "pile" && other.index === row.index);
  if (row.kind === "lane" && beside) return;
  const stream = row.kind === "pile" ? say("stream {stream}", { stream: f.model.streams[row.index].wire.stream }) : "";
  const words = [stream, text.label, text.sub].filter(Boolean).join(" ");
  if (words) f.text.write(words, 0, row.y - 7, { size: 10, colour: f.palette.css("ink2") });
}

function writeLabel(f: Frame, row: Row, text: RowText): void {
  const { layout, palette } = f;
  if (layout.above) {
    writeAbove(f, row, text);
    return;
  }
  const room = layout.left - 20;
  const both = text.label !== "" && text.sub !== "";
  const middle = middleOf(row);
  const put = (words: string, y: number, size: number, token: string): void => {
    if (f.text.width(words, { size }) > room) size = 10;
    const fits = f.text.fitted(words, room, { size });
    if (fits) f.text.write(fits, -8, y, { size, align: "right", colour: palette.css(token) });
  };
  if (text.label) put(text.label, both && row.kind !== "thread" ? middle - 6 : middle, 11, "ink");
  if (text.sub && (row.kind !== "thread" || row.sub > 1))
    put(text.sub, both ? middle + (row.kind === "thread" ? 11 : 7) : middle, 10, "ink2");
}

function writeNumber(f: Frame, row: Row, text: RowText): void {
  if (!text.number) return;
  const x = f.scale.width + 8;
  const y = middleOf(row);
  const size = f.text.width(text.number, { size: 11 }) > f.layout.right - 8 ? 10 : 11;
  f.text.write(f.text.fitted(text.number, f.layout.right - 8, { size }), x, y, { size, colour: f.palette.css("ink") });
  const used = f.text.width(text.number, { size }) + 4;
  const unit = text.unit;
  if (unit && f.text.width(unit, { size: 10 }) <= f.layout.right - 6 - used)
    f.text.write(unit, x + used, y, { size: 10, colour: f.palette.css("ink2") });
}

function writeHeadings(f: Frame): void {
  for (const row of f.rows) {
    const group = f.model.groups[row.index];
    const middle = row.y + row.h / 2;
    if (row.kind === "heading") {
      const words = [
        group.wire.label,
        plural(group.wire.n_ops, "device op"),
        say("busy {share} of {what}", { share: percent(group.wire.busy_frac), what: f.model.header.busy_of }),
      ];
      words.push(say("queue ≤ {n}", { n: count(group.wire.queue_max) }));
      const text = f.text.fitted(words.join(" · "), f.scale.width, { bold: true });
      f.text.write(text, 0, middle, { bold: true, colour: f.palette.css("ink") });
    } else if (row.kind === "more") {
      const hidden = group.streams.slice(f.state.streams).reduce((n, s) => n + f.model.streams[s].wire.ops, 0);
      const streams = plural(row.sub + group.wire.n_folded, "more stream");
      const words = say("and {streams} with {ops}", { streams, ops: plural(hidden + group.wire.folded_ops, "op") });
      const colour = f.palette.css(row.sub ? "accent" : "ink2");
      f.text.write(row.sub ? `${words} · ${say("show ▸")}` : words, 0, middle, { colour });
    }
  }
}

function writeBrackets(f: Frame): void {
  const { g } = f.text;
  for (const bracket of f.layout.brackets) {
    const x = -f.layout.left;
    g.fillStyle = f.palette.css(bracket.token);
    g.fillRect(x, bracket.y0, 2, bracket.y1 - bracket.y0);
    if (bracket.y1 - bracket.y0 < f.text.width(bracket.text, { size: 10 }) + 4) continue;
    g.save();
    g.translate(x + 10, (bracket.y0 + bracket.y1) / 2);
    g.rotate(-Math.PI / 2);
    f.text.write(bracket.text, 0, 0, { size: 10, align: "center", colour: f.palette.css("ink2") });
    g.restore();
  }
}
