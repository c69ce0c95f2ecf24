import { describe, expect, test } from "vitest";
import { layoutOf, LEVEL_PX } from "../src/model/layout.ts";
import { boxOf } from "../src/paint/marks.ts";
import { duration } from "../src/model/units.ts";
import { pick } from "../src/interact/pick.ts";
import { Pixels } from "../src/paint/pixels.ts";
import { initial } from "../src/model/state.ts";
import { beside, walk } from "../src/interact/walk.ts";
import { detailsOf } from "../src/interact/details.ts";
import { totalsOf } from "../src/model/totals.ts";
import { painted, inked } from "./frames.ts";
import type { Written } from "./recorder.ts";
import { CASES, modelOf } from "./vectors.ts";

const words = (text: string): string => text.replaceAll("\u00a0", " ");

describe("pixels", () => {
  test("a column's height is a share to a 256th of a pixel", () => {
    const px = new Pixels(1, 10);
    px.clear(0xff000000 | 0, 10, Int32Array.of(0), [0, 10]);
    px.column(0, 6.25, 10, 0xffffffff | 0);
    expect(px.at(0, 7) & 255).toBe(255);
    expect(px.at(0, 6) & 255).toBe(191); // three quarters
    expect(px.at(0, 5) & 255).toBe(0);
  });

  test("a box stands where it is asked to, also when wide, and never outside", () => {
    const px = new Pixels(40, 6);
    px.clear(0, 6, new Int32Array(40), [0, 6]);
    px.box(-5, 1, 30.5, 99, 0xff0000ff | 0);
    expect([px.at(0, 0), px.at(29, 1) & 255, px.at(29, 5) & 255, px.at(31, 3)]).toEqual([0, 255, 255, 0]);
    expect(px.at(30, 3) & 255).toBe(127);
  });

  test("columns of several device pixels reach over the width", () => {
    expect([new Pixels(5, 1, 2).columns, new Pixels(8, 1, 4).columns]).toEqual([3, 2]);
  });

  test("a band is cleared without its neighbours", () => {
    const px = new Pixels(1, 4);
    px.clear(5, 1, Int32Array.of(6), [0, 4]);
    px.clear(8, 1, Int32Array.of(9), [2, 3]);
    expect([0, 1, 2, 3].map((y) => px.at(0, y))).toEqual([5, 6, 9, 6]);
  });
});

describe("a cell with eleven ops in a queue", () => {
  test("every op is a layer and a slice", async () => {
    const model = await modelOf("queue");
    const { frame } = painted(model);
    const matrix = frame.palette.pixel("matrix");
    const other = frame.palette.pixel("comp");
    const stream = model.streams[0];
    for (let i = 0; i < stream.start.length; i++) {
      const x = Math.floor(frame.scale.x((stream.start[i] + stream.end[i]) / 2));
      expect(inked(frame, "lane", x, matrix) + inked(frame, "lane", x, other)).toBe(24);
    }
    const early = Math.ceil(frame.scale.x(stream.start[0] + 100_000));
    const late = Math.floor(frame.scale.x(stream.start[9] + 100_000));
    const ground = frame.palette.pixel("ground");
    expect(inked(frame, "pile", late, ground)).toBeGreaterThan(inked(frame, "pile", early, ground) + 60);
  });

  test("a wait for a busy device is grey, others are red", async () => {
    const model = await modelOf("queue");
    const blocked = model.blocked!;
    for (const [besideWork, token, ink] of [
      [1, "ink3", "ink2"],
      [0, "wait", "wait"],
    ] as const) {
      if (besideWork) expect([...blocked.besideWork]).toEqual([1]);
      blocked.besideWork[0] = besideWork;
      const { frame, written } = painted(model);
      const x = Math.round(frame.scale.x(blocked.end[0])) - 1;
      expect(inked(frame, "launches", x, frame.palette.pixel(token))).toBeGreaterThan(10);
      expect(written.find((w) => w.text.startsWith("blocked"))!.colour).toBe(frame.palette.css(ink));
    }
  });

  test("what blocked Python is said, with its length", async () => {
    const { written } = painted(await modelOf("queue"));
    expect(written.some((w) => /^blocked 33\.\d ms/.test(words(w.text)))).toBe(true);
    expect(written.map((w) => w.text)).toContain("Python has queued everything");
  });

  test("other people's names are only ever written as text, and cut to their slice", async () => {
    const model = await modelOf("queue");
    const { written } = painted(model, { view: [1_200_000, 8_000_000] });
    const names = written.filter((w) => w.text.startsWith("k<"));
    expect(names.length + written.filter((w) => w.text.startsWith("k")).length).toBeGreaterThan(0);
  });

  test("an op is found by its slice and by its layer", async () => {
    const model = await modelOf("queue");
    const { frame } = painted(model);
    const stream = model.streams[0];
    const lane = frame.layout.rows.find((r) => r.kind === "lane")!;
    const pile = frame.layout.rows.find((r) => r.kind === "pile")!;
    const x = frame.scale.x((stream.start[6] + stream.end[6]) / 2);
    expect(pick(model, frame.layout, frame.scale, x, lane.y + 5).ref).toEqual({ kind: "op", stream: 0, row: 6 });
    // while op 6 runs, ops 7 to 10 wait above it, the next one lowest
    expect(pick(model, frame.layout, frame.scale, x, pile.y + pile.h - 2).ref).toEqual({
      kind: "op",
      stream: 0,
      row: 7,
    });
    expect(pick(model, frame.layout, frame.scale, x, pile.y + 2).ref).toBeNull();
  });

  test("walking goes from a launch to its op and on to the next launch, and back", async () => {
    const model = await modelOf("queue");
    const view = [0, model.span] as const;
    const first = walk(model, null, true, view);
    expect(first).toEqual({ kind: "launch", row: 0 });
    const op = walk(model, first, true, view);
    expect(op).toEqual({ kind: "op", stream: 0, row: 0 });
    expect(walk(model, op, true, view)).toEqual({ kind: "launch", row: 1 });
    expect(walk(model, { kind: "launch", row: 1 }, false, view)).toEqual(op);
    expect(walk(model, op, false, view)).toEqual(first);
    expect(beside(model, op, -1, view)).toEqual(op);
  });

  test("the life of an op adds up from launch to end", async () => {
    const model = await modelOf("queue");
    const stream = model.streams[0];
    const details = detailsOf(model, { kind: "op", stream: 0, row: 6 }, [0, model.span]);
    const lived = details.life.reduce((sum, [, ns]) => sum + ns, 0);
    expect(lived).toBe(stream.end[6] - stream.launch[6]);
    expect(details.rows.map((r) => r.name)).toEqual(["launched", "in the call", "behind", "waiting", "ran"]);
    expect(words(details.rows[4].value)).toBe("3.00 ms");
  });

  test("a kernel of a GPU tells its grid, a copy has none", async () => {
    const model = await modelOf("gp100");
    const rowsOf = (stream: number, row: number): string[] =>
      detailsOf(model, { kind: "op", stream, row }, [0, model.span])
        .rows.filter((r) => r.name === "grid")
        .map((r) => r.value);
    model.streams.forEach((stream, s) => {
      stream.shape.forEach((shape, i) =>
        expect(rowsOf(s, i)).toEqual(shape ? [model.header.shapes[shape - 1][0]] : []),
      );
    });
    expect(model.streams.some((s) => s.shape.some((shape) => shape > 0))).toBe(true);
  });
});

describe.each(CASES)("a timeline of %s", (name) => {
  test("is painted at every width, in both themes, whole and zoomed in", async () => {
    const model = await modelOf(name);
    for (const width of [320, 600, 1000]) {
      for (const theme of ["light", "dark"] as const) {
        const { written } = painted(model, { view: [model.span * 0.3, model.span * 0.31] }, width, theme);
        expect(written.length).toBeGreaterThan(2);
      }
    }
  });

  test("lanes do not overlap, and do not move when zooming", async () => {
    const model = await modelOf(name);
    const layout = layoutOf(model, initial(model.span), 1000);
    for (let i = 1; i < layout.rows.length; i++) {
      expect(layout.rows[i].y).toBeGreaterThanOrEqual(layout.rows[i - 1].y + layout.rows[i - 1].h);
    }
    const zoomed = { ...initial(model.span), view: [10, 20] as const };
    expect(layoutOf(model, zoomed, 1000)).toEqual(layout);
  });

  test("a pile stands on its lane, also where labels stand above the lanes", async () => {
    const model = await modelOf(name);
    for (const width of [400, 1000]) {
      const { rows } = layoutOf(model, initial(model.span), width);
      for (const pile of rows.filter((r) => r.kind === "pile")) {
        expect(rows.find((r) => r.kind === "lane" && r.index === pile.index)!.y).toBe(pile.y + pile.h);
      }
    }
  });

  test("totals of two halves are the totals of the whole", async () => {
    const model = await modelOf(name);
    const middle = model.span / 2;
    const of = (from: number, to: number, part: string): number =>
      totalsOf(model, [from, to]).parts.find((p) => p.name === part)?.ns ?? 0;
    for (const part of ["compute", "communication", "copy", "idle"]) {
      expect(of(0, middle, part) + of(middle, model.span, part)).toBeCloseTo(of(0, model.span, part), 3);
    }
  });
});

describe("Python frames", () => {
  test("stand below the operators of their thread, folded until they are clicked", async () => {
    const model = await modelOf("mi300");
    const of = (open: number[]) => layoutOf(model, { ...initial(model.span), open }, 1000).rows;
    expect(of([]).filter((r) => r.kind === "thread").map((r) => [r.index, r.sub])).toEqual([[0, 3], [1, 8]]); // prettier-ignore
    expect(of([1]).find((r) => r.kind === "thread" && r.index === 1)!.sub).toBe(model.threads[1].levels.length);
    const { written } = painted(model);
    const label = written.find((w) => w.text.startsWith("Python fr"))!; // cut where letters are wide
    expect(label.y).toBeGreaterThan(written.find((w) => w.text === "main thread")!.y);
    expect(written.map((w) => w.text)).toContain("▸ 13 levels");
    expect(written.some((w) => /^_run_batch_inner \(sched/.test(w.text))).toBe(true);
  });

  test("have a card with function, file, line, duration and caller", async () => {
    const model = await modelOf("mi300");
    const { frame } = painted(model);
    const row = frame.layout.rows.find((r) => r.kind === "thread" && r.index === 1)!;
    const track = model.threads[1].levels[1];
    const i = track.longest(0, track.length);
    const x = (frame.scale.x(track.start[i]) + frame.scale.x(track.end[i])) / 2;
    const { ref } = pick(model, frame.layout, frame.scale, x, row.y + LEVEL_PX * 1.5);
    expect(ref).toEqual({ kind: "host", thread: 1, level: 1, row: i });
    const card = detailsOf(model, ref!, [0, model.span]);
    expect(card.title).toMatch(/^\w+ \(\w+\.py:\d+\)$/);
    expect(card.full).toMatch(/^Python frames · level 2 · .*\/\w+\.py\(\d+\): \w+$/);
    expect(card.rows[0]).toMatchObject({ name: "ran", value: duration(track.end[i] - track.start[i]) });
    expect(card.rows.at(-1)).toMatchObject({ name: "called by", note: "_run_batch_inner (scheduler.py:2919)" });
  });

  test("start, while folded, at the innermost level that is the same all the time", async () => {
    const model = await modelOf("mi300");
    model.threads[1].outer = 2;
    const { frame } = painted(model);
    const row = frame.layout.rows.find((r) => r.kind === "thread" && r.index === 1)!;
    const track = model.threads[1].levels[2];
    const i = track.longest(0, track.length);
    const x = (frame.scale.x(track.start[i]) + frame.scale.x(track.end[i])) / 2;
    const { ref } = pick(model, frame.layout, frame.scale, x, row.y + 5);
    expect(ref).toEqual({ kind: "host", thread: 1, level: 2, row: i });
    expect(boxOf(frame, ref!)).toMatchObject({ y: row.y, x: frame.scale.x(track.start[i]) });
    expect(frame.px.at(Math.floor(x), row.y + 5)).not.toBe(frame.palette.pixel("ground"));
    const open = layoutOf(model, { ...initial(model.span), open: [1] }, 1000);
    const found = pick(model, open, frame.scale, x, row.y + LEVEL_PX * 2.5);
    expect(found.ref).toEqual(ref);
  });
});

describe("a search", () => {
  test("counts its hits, and dims the rest", async () => {
    const model = await modelOf("noise");
    const { frame } = painted(model, { query: "NCCL" });
    const named = (name: number): boolean => model.names[name][0] === "ncclKernel";
    const want = model.streams.reduce((n, s) => n + [...s.name].filter(named).length, 0);
    expect(frame.hits!.count).toBe(want);
    expect(want).toBeGreaterThan(0);
    const plain = painted(model).frame;
    const full = plain.palette.pixel("matrix");
    const count = (f: typeof frame): number => {
      let found = 0;
      for (let x = 0; x < f.px.columns; x++) found += inked(f, "lane", x, full, 0);
      return found;
    };
    expect(count(plain)).toBeGreaterThan(0);
    expect(count(frame)).toBe(0);
  });
});

describe("the axis and what stands on it", () => {
  interface Words {
    x0: number;
    x1: number;
    y: number;
  }

  /** Where words stand, from what was written: the recorder's letters are 6 px wide. */
  const placesOf = (written: Written[], wanted: (text: string) => boolean): Words[] =>
    written
      .filter((w) => wanted(w.text))
      .map(({ text, x, y, align }) => {
        const width = text.length * 6;
        const x0 = align === "right" ? x - width : align === "center" ? x - width / 2 : x;
        return { x0, x1: x0 + width, y };
      });

  const overlaps = (all: Words[]): [Words, Words][] =>
    all.flatMap((a, i) =>
      all.slice(i + 1).flatMap((b): [Words, Words][] => {
        return Math.abs(a.y - b.y) < 10 && a.x0 < b.x1 && b.x0 < a.x1 ? [[a, b]] : [];
      }),
    );

  test("the words of two flags never lie over each other, wherever the flags are", async () => {
    const model = await modelOf("queue");
    const [queued, finished] = model.header.flags;
    const was = [queued.at, finished.at];
    for (const width of [560, 1000, 1600]) {
      for (const at of [0, 0.02, 0.1, 0.4, 0.5, 0.8, 0.97]) {
        for (const apart of [0.001, 0.01, 0.1, 0.3, 0.9]) {
          queued.at = at * model.span;
          finished.at = Math.min(1, at + apart) * model.span;
          const { written, frame } = painted(model, {}, width);
          const row = frame.layout.rows.find((r) => r.kind === "flags")!;
          const places = placesOf(
            written.filter((w) => w.y > row.y && w.y < row.y + row.h),
            () => true,
          );
          expect(places).toHaveLength(4);
          expect(overlaps(places)).toEqual([]);
          for (const { x0, x1 } of places) {
            expect(x0).toBeGreaterThanOrEqual(-frame.layout.left);
            expect(x1).toBeLessThanOrEqual(frame.scale.width + frame.layout.right);
          }
        }
      }
    }
    [queued.at, finished.at] = was;
  });

  test("no instant is written where the selection's length stands", async () => {
    const model = await modelOf("noise");
    for (let share = 0; share < 1; share += 0.05) {
      const from = share * model.span;
      const { written, frame } = painted(model, { selection: [from, Math.min(model.span, from + 0.06 * model.span)] });
      const axis = frame.layout.rows.find((r) => r.kind === "axis")!;
      const places = placesOf(
        written.filter((w) => w.y >= axis.y && w.y < axis.y + axis.h),
        () => true,
      );
      expect(places.length).toBeGreaterThan(2);
      expect(overlaps(places)).toEqual([]);
    }
  });
});
