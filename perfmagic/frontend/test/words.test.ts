import { describe, expect, test } from "vitest";
import { detailsOf } from "../src/interact/details.ts";
import { buildModel } from "../src/model/build.ts";
import { decode, inflate } from "../src/model/decode.ts";
import type { Model } from "../src/model/store.ts";
import { plural } from "../src/model/units.ts";
import { say } from "../src/model/words.ts";
import { painted } from "./frames.ts";
import { modelOf, payloadOf } from "./vectors.ts";

const WORDS = {
  ...{ launches: "启动", queued: "排队", ran: "执行", launched: "启动于", "stream {stream}": "流 {stream}" },
  ...{ "{share} busy": "忙碌 {share}", "{n} op": "{n} 个算子", "{n} ops": "{n} 个算子" },
};

async function inChinese(): Promise<Model> {
  const { header } = await modelOf("queue");
  return buildModel({ ...header, words: WORDS }, decode(await inflate(payloadOf("queue")), header.columns));
}

const labels = (model: Model): string[] => painted(model).written.map(({ text }) => text);

describe("labels", () => {
  test("are Chinese where the header has the words", async () => {
    const shown = labels(await inChinese());
    expect(shown).toEqual(expect.arrayContaining(["启动", "排队"]));
    expect(shown.some((text) => text.startsWith("流 "))).toBe(true);
    expect(shown.some((text) => /^(launches|queued|stream)\b/.test(text))).toBe(false);
    expect(plural(1, "op")).toBe("1 个算子");
    expect(say("{share} busy", { share: "{n}" })).toBe("忙碌 {n}");
  });

  test("of a card, too", async () => {
    const model = await inChinese();
    const { rows } = detailsOf(model, { kind: "op", stream: 0, row: 0 }, [0, model.span]);
    expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining(["启动于", "执行"]));
  });

  test("are English again for a header without words", async () => {
    await inChinese();
    const shown = labels(await modelOf("queue"));
    expect(shown).toEqual(expect.arrayContaining(["launches", "queued"]));
    expect(shown.filter((text) => Object.values<string>(WORDS).includes(text))).toEqual([]);
    expect(plural(1, "op")).toBe("1 op");
  });
});
