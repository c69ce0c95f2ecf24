// A page of several ranks: rows on one axis, and below them the lanes of the rows that are open, with one window for all.
import { button, el } from "../interact/dom.ts";
import type { Host } from "../interact/host.ts";
import { View } from "../interact/view.ts";
import { buildModel } from "../model/build.ts";
import { decode, inflate } from "../model/decode.ts";
import type { Window } from "../model/scale.ts";
import type { Model } from "../model/store.ts";
import { say } from "../model/words.ts";

export class RanksView extends View {
  private readonly inner: Inner;

  constructor(parent: HTMLElement, model: Model, payload: Uint8Array, host: Host) {
    const inner = new Inner(model, payload, host);
    super(parent, model, {
      ...host,
      looked: (window) => {
        inner.look(window, null);
        host.looked?.(window);
      },
      opened: (ranks) => inner.open(ranks),
    });
    this.inner = inner;
    inner.outer = this;
    this.root.append(inner.node);
  }

  override destroy(): void {
    this.inner.destroy();
    super.destroy();
  }
}

/** The open ranks. Their timelines are drawn on the common axis, so that a window means the same in all. */
class Inner {
  readonly node = el("div", "pm-open-ranks");
  outer: View | null = null;
  private readonly views = new Map<number, { node: HTMLElement; view: View | null }>();
  private linking = false;
  private readonly over = new AbortController();

  constructor(
    private readonly model: Model,
    private readonly payload: Uint8Array,
    private readonly host: Host,
  ) {}

  open(ranks: readonly number[]): void {
    for (const [i, { node, view }] of this.views) {
      if (ranks.includes(i)) continue;
      view?.destroy();
      node.remove();
      this.views.delete(i);
    }
    for (const i of ranks) if (!this.views.has(i) && this.model.ranks[i].wire.part) this.add(i);
    const order = [...this.views.keys()].sort((a, b) => a - b);
    this.node.append(...order.map((i) => this.views.get(i)!.node));
  }

  /** Every view but the one that moved shows its window. */
  look(window: Window, from: View | null): void {
    if (this.linking) return;
    this.linking = true;
    const all = [this.outer, ...[...this.views.values()].map(({ view }) => view)];
    for (const view of all) if (view && view !== from) view.lookAt(window);
    this.linking = false;
  }

  destroy(): void {
    this.over.abort();
    for (const { view } of this.views.values()) view?.destroy();
    this.views.clear();
  }

  private add(i: number): void {
    const { wire } = this.model.ranks[i];
    const shut = (): void => this.outer?.act({ do: "rank", rank: i });
    const close = button(say("close"), say("close {rank}", { rank: wire.label }), shut, this.over.signal);
    const head = el("div", "pm-rank-head", el("b", "", wire.label), el("span", "", wire.title), close);
    const node = el("div", "pm-open-rank", head);
    node.dataset["rank"] = String(wire.rank);
    this.views.set(i, { node, view: null });
    void this.mount(i, node);
  }

  private async mount(i: number, node: HTMLElement): Promise<void> {
    const part = this.model.ranks[i].wire.part!;
    try {
      const bytes = await inflate(this.payload.subarray(part.at, part.at + part.bytes));
      const slot = this.views.get(i);
      if (this.over.signal.aborted || slot?.node !== node) return; // closed in the meantime
      const model = buildModel({ ...part.header, words: this.model.header.words }, decode(bytes, part.header.columns));
      const { theme, onTheme } = this.host;
      let view: View | null = null;
      view = new View(node, model, { theme, onTheme, looked: (window) => this.look(window, view) });
      slot.view = view;
      if (this.outer) view.lookAt(this.outer.state.view);
    } catch (error) {
      node.append(el("div", "pm-error", say("This rank cannot be drawn: {why}", { why: (error as Error).message })));
    }
  }
}
