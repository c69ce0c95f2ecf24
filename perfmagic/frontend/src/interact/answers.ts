// What to do, above the lanes: the answers with their evidence; all findings open below them.
import { button, el, type Part } from "./dom.ts";
import type { Action, State } from "../model/state.ts";
import type { Model } from "../model/store.ts";
import type { AnswerWire, FindingWire } from "../model/wire.ts";

type Do = (action: Action) => void;

export function answerList(model: Model, act: Do, signal: AbortSignal): Part {
  const { answers, findings, findings_words } = model.header;
  const sentences = new Sentences(act, signal);
  const found = findings.map((finding, i) => findingRow(model, finding, i, sentences, act, signal));
  const all = el("div", "", ...found.map(({ node }) => node));
  all.hidden = answers !== null;
  const rows = (answers?.rows ?? []).map((answer, i) => answerRow(model, answer, i, sentences, act, signal));
  const node = el("div", findings.length || answers ? "pm-findings" : "", ...rows.map((row) => row.node));
  if (answers && (answers.together || findings.length)) node.append(lastRow());
  node.append(all);
  const update = (state: State): void => {
    for (const part of [...rows, ...found]) part.update(state);
    sentences.update(state);
  };
  return { node, update };

  /** All answers at once, and in the same line what else was found. */
  function lastRow(): HTMLElement {
    const { together, others, warnings } = answers!;
    const mark = el("span", "pm-unfold");
    const unfold = (): void => {
      all.hidden = !all.hidden;
      tell();
    };
    const more = button("", "all findings", unfold, signal, "pm-more");
    const tell = (): void => {
      more.setAttribute("aria-expanded", String(!all.hidden));
      mark.textContent = `${findings_words} ${all.hidden ? "▸" : "▾"}`;
    };
    more.append(...[others, warnings].map((lines) => el("span", "", lines.join(" · "))), mark);
    tell();
    const fact = el("div", "pm-last-row", el("b", "", together?.headline ?? ""), ...(findings.length ? [more] : []));
    return el("div", "pm-answer", el("i"), fact, ...(together ? [figures(together)] : []));
  }
}

function figures({ before, after, sure }: AnswerWire, show?: HTMLElement): HTMLElement {
  const times = el("div", "", before ? `${before} → ` : "", el("b", "", after));
  return el("div", "pm-figures", times, el("div", "", sure, ...(sure && show ? [" · "] : []), ...(show ? [show] : [])));
}

function answerRow(
  model: Model,
  answer: AnswerWire,
  i: number,
  sentences: Sentences,
  act: Do,
  signal: AbortSignal,
): Part {
  const because = answer.evidence.map((row) => model.header.findings[row]);
  const lines = new Set(because.flatMap((finding) => finding.lines));
  const lane = because.find((finding) => finding.frame_lane !== undefined)?.frame_lane;
  // numbers of answers follow those of findings
  const show = shower(model, answer, model.header.findings.length + i, [...lines], lane, answer.headline, act, signal);
  const why = el("div", "pm-why", ...because.map((finding) => sentences.of(finding)));
  const said = el("div", "", el("b", "", answer.headline), el("div", "pm-action", answer.action), why);
  const node = el("div", "pm-answer", el("i", "", String(i + 1)), said, figures(answer, show.node));
  node.classList.toggle("pm-alarm", answer.wrong);
  const update = (state: State): void => {
    show.update(state);
    why.hidden = !show.on(state);
    node.classList.toggle("pm-on", show.on(state));
  };
  return { node, update };
}

function findingRow(
  model: Model,
  finding: FindingWire,
  i: number,
  sentences: Sentences,
  act: Do,
  signal: AbortSignal,
): Part {
  const cost = el("span", finding.cost_ns === 0 ? "pm-cost pm-none" : "pm-cost", finding.cost);
  const show = shower(model, finding, i, finding.lines, finding.frame_lane, finding.cause, act, signal);
  const node = el("div", "pm-finding", cost, sentences.of(finding), show.node);
  node.classList.toggle("pm-alarm", finding.rule === "race");
  node.style.setProperty("--pm-depth", String(finding.depth));
  if (finding.cost_ns) {
    const bar = el("s");
    bar.style.background = `var(--pm-${finding.token})`;
    bar.style.width = `calc((100% - 196px * var(--pm-font, 1)) * ${Math.min(1, finding.cost_ns / model.span)})`;
    node.append(bar);
  }
  const update = (state: State): void => {
    show.update(state);
    node.classList.toggle("pm-on", show.on(state));
  };
  return { node, update };
}

/** The button that shows where in time something is, and hides it again. */
function shower(
  model: Model,
  { start_ns, end_ns }: { start_ns: number; end_ns: number },
  number: number,
  lines: number[],
  lane: number | undefined,
  what: string,
  act: Do,
  signal: AbortSignal,
): Part & { on(state: State): boolean } {
  const window = [start_ns, Math.max(end_ns, start_ns + 1)] as const;
  const line = lines.length === 1 ? lines[0] : 0;
  const thread = lane === undefined ? undefined : model.header.thread_lanes.length + lane;
  const node = button("", "", () => act({ do: "finding", number, window, line, thread }), signal, "pm-show");
  const on = (state: State): boolean => state.shown === number;
  const update = (state: State): void => {
    node.textContent = on(state) ? "hide ◂" : "show ▸";
    node.setAttribute("aria-label", `${on(state) ? "hide" : "show"}: ${what}`);
  };
  return { node, update, on };
}

/** The sentences of findings. The cell lines that they name can be clicked, not those of functions. */
class Sentences {
  private readonly buttons: HTMLButtonElement[] = [];

  constructor(
    private readonly act: Do,
    private readonly signal: AbortSignal,
  ) {}

  update(state: State): void {
    for (const one of this.buttons)
      one.classList.toggle("pm-on", state.line > 0 && one.dataset["line"] === String(state.line));
  }

  of(finding: FindingWire): HTMLElement {
    const said = el("span", "pm-said", el("b", "", finding.cause));
    let at = 0;
    for (const match of finding.rest.matchAll(/\blines? \d+(?:(?:, | and )\d+)*(?!\d| of )/g)) {
      said.append(finding.rest.slice(at, match.index));
      at = match.index + match[0].length;
      for (const piece of match[0].split(/(\d+)/))
        said.append(finding.lines.includes(Number(piece)) ? this.line(piece) : piece);
    }
    said.append(finding.rest.slice(at));
    return said;
  }

  private line(number: string): HTMLButtonElement {
    const mark = (): void => this.act({ do: "line", line: Number(number) });
    const node = button(number, `mark the ops of line ${number}`, mark, this.signal, "pm-line");
    node.dataset["line"] = number;
    this.buttons.push(node);
    return node;
  }
}
