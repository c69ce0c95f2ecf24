// What is known of a collective on all its ranks, and of a message: the hover card's words.
import { at, type Details, type Kind, row } from "./detail_rows.ts";
import type { Model } from "../model/store.ts";
import { duration, plural } from "../model/units.ts";
import { say } from "../model/words.ts";

const MOST_RANKS = 8; // that a card lists, those that waited longest

function meetingDetails(model: Model, i: number): Details {
  const { ranks } = model;
  const { meets } = model.joined!;
  const [title, full] = split(meets.kinds[meets.kind[i]] ?? "");
  const label = (place: number): string => ranks[meets.row[place]].wire.label;
  const parts = Array.from({ length: meets.first[i + 1] - meets.first[i] }, (_, p) => meets.first[i] + p);
  const moved = (p: number): number => meets.end[p] - meets.start[p] - meets.wait[p];
  const overlapped = (p: number): string => {
    const spans = ranks[meets.row[p]].waitBeside;
    const ns = spans.covered(meets.start[p], meets.start[p] + meets.wait[p]);
    return ns ? `, ${say("{time} overlapped with compute", { time: duration(ns) })}` : "";
  };
  const last = meets.last[i];
  const came = last < 0 ? say("not certain") : ranks[last].wire.label;
  const rows = [row("came last", came, say("at {time}", { time: at(model, meets.met[i]) }))];
  const listed = [...parts].sort((a, b) => meets.wait[b] - meets.wait[a]).slice(0, MOST_RANKS);
  for (const p of listed.sort((a, b) => meets.row[a] - meets.row[b]))
    rows.push(
      row(
        label(p),
        say("waits {time}", { time: known(meets.wait[p], meets.err[i]) }) + overlapped(p),
        say("moves data for {time}", { time: duration(moved(p)) }),
      ),
    );
  const longest = parts.reduce((most, p) => (meets.wait[p] > meets.wait[most] ? p : most), parts[0]);
  const life: [string, number][] = [
    ["wait", meets.wait[longest]],
    ["comm", moved(longest)],
  ];
  const foot =
    parts.length > listed.length
      ? say("{ranks} waited less", { ranks: plural(parts.length - listed.length, "more rank") })
      : "";
  return { title, token: "comm", full: `${full} · ${plural(parts.length, "rank")}`, life, rows, foot };
}

function messageDetails(model: Model, i: number): Details {
  const { ranks } = model;
  const { messages } = model.joined!;
  const [source, target] = [messages.source[i], messages.target[i]].map((place) => ranks[place].wire.label);
  const [met, sentEnd, arrived] = [messages.met[i], messages.sentEnd[i], messages.arrived[i]];
  const waited = (from: number, to: number): string =>
    say("waits {time}", { time: duration(Math.max(0, Math.min(met, to) - from)) });
  const moved = arrived - met;
  const rows = [
    row(source, waited(messages.sent[i], sentEnd), say("sends from {time}", { time: at(model, messages.sent[i]) })),
    row(target, waited(messages.asked[i], arrived), say("asks at {time}", { time: at(model, messages.asked[i]) })),
    row("arrived", at(model, arrived), say("{time} after both had come", { time: duration(Math.max(0, moved)) })),
  ];
  return { title: `${source} → ${target}`, token: "comm", full: say("message"), life: [], rows, foot: "" };
}

/** From the first of its ranks to the last. */
export const meeting: Kind = {
  details: meetingDetails,
  span({ joined }, i) {
    const { first, start, end } = joined!.meets;
    const parts = [first[i], first[i + 1]] as const;
    return [Math.min(...start.slice(...parts)), Math.max(...end.slice(...parts))];
  },
  count: ({ joined }) => joined!.meets.met.length,
};

export const message: Kind = {
  details: messageDetails,
  span({ joined }, i) {
    const { sent, sentEnd, asked, arrived } = joined!.messages;
    return [Math.min(sent[i], asked[i]), Math.max(sentEnd[i], arrived[i])];
  },
  count: ({ joined }) => joined!.messages.met.length,
};

/** A time and how far it may be wrong, where that is more than a hundredth of it. */
function known(ns: number, err: number): string {
  return err > ns / 100 && ns > 0 ? `${duration(ns)} ± ${duration(err)}` : duration(ns);
}

function split(kind: string): [string, string] {
  const cut = kind.indexOf(" · ");
  return cut < 0 ? [kind, ""] : [kind.slice(0, cut), kind.slice(cut + 3)];
}
