// What the lines tab tells of: an op or a line, by the pointer, the keyboard, a pin or a finding.
import type { State } from "./state.ts";
import type { Model } from "./store.ts";

/** The op that the lines tab tells of: that under the pointer, or the first that a launch there queued. */
export function tellingOp(model: Model, state: State): { stream: number; row: number } | null {
  const of = (ref: State["hover"]): { stream: number; row: number } | null => {
    if (ref?.kind === "op") return ref;
    if (ref?.kind !== "launch" || !model.launches || model.launches.opStream[ref.row] < 0) return null;
    return { stream: model.launches.opStream[ref.row], row: model.launches.opRow[ref.row] };
  };
  return of(state.hover) ?? (tellingRow(model, state) < 0 ? of(state.focus) : null);
}

/** The row that the lines tab tells of: pointed at, in its table or above; else pinned, else of the marked line. */
export function tellingRow(model: Model, state: State): number {
  const { lines } = model;
  const { hover } = state;
  if (!lines || hover?.kind === "op" || hover?.kind === "launch") return -1;
  if (hover?.kind === "line") return lines.ofCell(model.cell!.line[hover.row]);
  if (hover?.kind === "blocked") return lines.ofCell(model.blocked!.line[hover.row]);
  if (state.lineRow >= 0) return state.lineRow;
  return state.pinnedRow >= 0 ? state.pinnedRow : lines.ofCell(state.line);
}
