// What to do, above the lanes: the answers with their evidence; all findings open below them.
import { button, el, type Part } from "./dom.ts";
import { flameButton } from "./flame.ts";
import type { Action, State } from "../model/state.ts";
import type { Model } from "../model/store.ts";
import type { AnswerWire, FindingWire } from "../model/wire.ts";
import { say } from "../model/words.ts";

export class AnswerList implements Part {
  readonly node = el("div");
  private readonly updates: ((state: State) => void)[] = [];

  constructor(
    private readonly model: Model,
    private readonly act: (action: Action) => void,
    private readonly signal: AbortSignal,
  ) {
    const { answers, findings } = model.header;
    if (!answers && !findings.length) return;
    this.node.className = "pm-findings";
    const all = el("div", "", ...findings.map((finding, i) => this.finding(finding, i)));
    if (answers) this.node.append(...answers.rows.map((answer, i) => this.answer(answer, i)), this.lastRow(all));
    this.node.append(all);
  }

  update(state: State): void {
    for (const update of this.updates) update(state);
  }

  private answer(answer: AnswerWire, i: number): HTMLElement {
    const { findings } = this.model.header;
    const because = answer.evidence.map((row) => findings[row]);
    const why = el("div", "pm-why", ...because.map((finding) => this.sentence(finding)));
    why.append(...answer.others.map((sentence) => el("span", "", sentence)));
    if (this.model.flame) {
      const flame = flameButton(this.act, this.signal);
      why.append(flame.node);
      this.updates.push(flame.update);
    }
    const fact = el("div", "", el("b", "", answer.headline), el("div", "pm-action", answer.action), why);
    const row = el("div", "pm-answer", el("i", "", String(i + 1)), fact);
    row.classList.toggle("pm-alarm", answer.wrong);
    // answers are numbered behind the findings
    const show = this.show(row, findings.length + i, answer, because, answer.headline, why);
    row.append(figures(answer, show));
    return row;
  }

  /** All answers at once, and in the same line what opens the rest. */
  private lastRow(all: HTMLElement): HTMLElement {
    const { answers, findings, findings_words } = this.model.header;
    const { together, others, warnings } = answers!;
    const said = [others, warnings].map((lines) => el("span", "", lines.join(" · ")));
    const mark = el("span", "pm-unfold");
    const turn = (): void => {
      all.hidden = !all.hidden;
      more.setAttribute("aria-expanded", String(!all.hidden));
      mark.textContent = findings.length ? `${findings_words} ${all.hidden ? "▸" : "▾"}` : "";
    };
    const more = button("", "", turn, this.signal, "pm-rest");
    more.append(...said, mark);
    turn();
    const fact = el("div", "", el("b", "", together?.headline ?? ""), more);
    return el("div", "pm-answer pm-all", el("i"), fact, together ? figures(together) : "");
  }

  private finding(finding: FindingWire, i: number): HTMLElement {
    const cost = el("span", finding.cost_ns === 0 ? "pm-cost pm-none" : "pm-cost", finding.cost);
    const row = el("div", "pm-finding", cost, this.sentence(finding));
    row.append(this.show(row, i, finding, [finding], finding.cause));
    row.classList.toggle("pm-alarm", finding.rule === "race");
    row.style.setProperty("--pm-depth", String(finding.depth));
    return row;
  }

  /** The button that shows where in time something is, and hides it again.  below: what opens with it. */
  private show(
    row: HTMLElement,
    number: number,
    { start_ns, end_ns }: { start_ns: number; end_ns: number },
    because: FindingWire[],
    what: string,
    below?: HTMLElement,
  ): HTMLElement {
    const window = [start_ns, Math.max(end_ns, start_ns + 1)] as const;
    const lines = new Set(because.flatMap((finding) => finding.lines));
    const line = lines.size === 1 ? [...lines][0] : 0;
    const lane = because.find((finding) => finding.frame_lane !== undefined)?.frame_lane;
    const thread = lane === undefined ? lane : this.model.header.thread_lanes.length + lane;
    const node = button(
      "",
      "",
      () => this.act({ do: "finding", number, window, line, thread }),
      this.signal,
      "pm-show",
    );
    this.updates.push(({ shown }) => {
      const on = shown === number;
      row.classList.toggle("pm-on", on);
      node.textContent = on ? say("hide ◂") : say("show ▸");
      node.setAttribute("aria-label", on ? say("hide: {what}", { what }) : say("show: {what}", { what }));
      if (below) below.hidden = !on;
    });
    return node;
  }

  /** A finding's sentence; the cell lines it names can be clicked, not those of functions. */
  private sentence({ cause, rest, lines }: FindingWire): HTMLElement {
    const said = el("span", "pm-said", el("b", "", cause));
    let at = 0;
    for (const match of rest.matchAll(/\blines? \d+(?:(?:, | and )\d+)*(?!\d| of )/g)) {
      said.append(rest.slice(at, match.index));
      at = match.index + match[0].length;
      for (const piece of match[0].split(/(\d+)/))
        said.append(lines.includes(Number(piece)) ? this.line(Number(piece)) : piece);
    }
    said.append(rest.slice(at));
    return said;
  }

  private line(line: number): HTMLElement {
    const mark = (): void => this.act({ do: "line", line });
    const node = button(String(line), say("mark the ops of line {line}", { line }), mark, this.signal, "pm-line");
    this.updates.push((state) => node.classList.toggle("pm-on", state.line === line));
    return node;
  }
}

function figures({ before, after, sure }: AnswerWire, show?: HTMLElement): HTMLElement {
  const times = el("div", "", before ? `${before} → ` : "", el("b", "", after));
  return el("div", "pm-figures", times, el("div", "", sure, sure && show ? " · " : "", show ?? ""));
}
