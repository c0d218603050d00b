// Shapes are the same in Go and TypeScript, byte for byte.
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { test } = require("node:test");
const { ask, internal, random, testdata } = require("./go.cjs");

const { Shaper } = internal("shape/shaper.js");
const { ShapeWorker } = internal("shape/worker.js");
const { shapePaths } = internal("shape/shape_paths.js");
const DIALECTS = Object.keys(shapePaths.dialects);
const KEY = "key";

const most = (body) => 8 * body.length + 4096;

function check(cases) {
  const answers = ask(cases.map(([kind, dialect, body, limit]) => ({ kind, dialect, body: body.toString("base64"), limit })), "shape", KEY);
  assert.strictEqual(answers.length, cases.length);
  const shaper = new Shaper(Buffer.from(KEY));
  cases.forEach(([kind, dialect, body, limit], i) => {
    const got = shaper.shape({ response: kind === "response", dialect, body, limit });
    const want = Buffer.from(answers[i], "base64");
    if (!got.equals(want)) assert.strictEqual(got.toString(), want.toString(), `${kind} of ${dialect}, limit ${limit}: ${body.toString("latin1").slice(0, 2000)}`);
  });
}

test("golden inputs", () => {
  const folder = path.join(testdata, "..", "go", "shape", "testdata");
  const cases = [];
  for (const name of fs.readdirSync(folder).filter((n) => n.endsWith(".in"))) {
    const [dialect, kind] = name.split(".");
    const body = fs.readFileSync(path.join(folder, name));
    const crlf = Buffer.from(body.toString("latin1").replace(/\n/g, "\r\n"), "latin1");
    for (const cut of [body, body.subarray(0, body.length >> 1), body.subarray(0, -3), crlf]) {
      for (const limit of [most(cut), cut.length]) cases.push([kind === "request" ? kind : "response", dialect, cut, limit]);
    }
  }
  assert.ok(cases.length >= 8 * 15);
  check(cases);
});

const WORDS = [
  "role", "content", "tool_calls", "id", "function", "arguments", "name", "messages", "choices", "delta", "index", "type", "error",
  "message", "input", "output", "text", "parts", "candidates", "functionCall", "args", "contents", "usage", "tools", "model", "k".repeat(65),
  "", "é", "\ud83d", "\u{1f600}", "a\nb", '"', "\\", "规划",
];
const BROKEN = ['{"a":1', "{} {}", "  ", "01", "truefalse", '"\\x"', "[1,]", "1e5", "1.e5", "-", '{"b":1,"a":{"d":[],"c":"\\ud800"}}', "nul"];

function value(r, depth) {
  switch (r.below(depth > 0 ? 8 : 5)) {
    case 0:
      return r.choice(WORDS);
    case 1:
      return r.choice([0, -1, 1.5, 1e30, 12345678901234567890, -0.5]);
    case 2:
      return r.choice([true, false, null]);
    case 3:
      return JSON.stringify(depth > 0 ? value(r, depth - 1) : {});
    case 4:
      return r.choice(BROKEN);
    case 5:
      return Array.from({ length: r.below(4) }, () => value(r, depth - 1));
  }
  return Object.fromEntries(Array.from({ length: r.below(5) }, () => [r.choice(WORDS), value(r, depth - 1)]));
}

/** An event of a stream with fragments of tool calls. */
function event(r) {
  const call = {};
  if (r.below(2)) call.index = r.below(3);
  if (r.below(2)) call.id = r.choice(["", "call_1", "call_2"]);
  call.function = { arguments: r.choice(["", "{", '{"a":', "1}", "}", "x", '{"a":1}']) };
  if (r.below(2)) call.function.name = r.choice(["f", "g"]);
  return r.choice([
    { choices: [{ index: r.below(2), delta: { content: r.choice(WORDS), tool_calls: [call] } }] },
    { choices: [{ index: r.below(2), delta: { reasoning_content: r.choice(WORDS) } }] },
    { type: "content_block_start", index: r.below(3), content_block: { type: "tool_use", id: "toolu_1", name: "f", input: {} } },
    { type: "content_block_delta", index: r.below(3), delta: { type: "input_json_delta", partial_json: r.choice(["", '{"a"', ":1}"]) } },
    { type: "content_block_delta", index: r.below(3), delta: { type: "text_delta", text: r.choice(WORDS) } },
    { type: "response.output_text.delta", item_id: "m", output_index: r.below(2), content_index: 0, delta: r.choice(WORDS) },
    { type: "response.function_call_arguments.delta", item_id: "f", output_index: r.below(2), delta: r.choice(["{", "}", '"a":1']) },
    { candidates: [{ index: r.below(2), content: { role: "model", parts: [{ text: r.choice(WORDS) }, { functionCall: { name: "f", args: {} } }] } }] },
    { contentBlockIndex: r.below(2), delta: r.choice([{ text: "a" }, { toolUse: { input: "{}" } }]) },
    value(r, 4),
  ]);
}

function bodyOf(r) {
  const text = Buffer.from(JSON.stringify(value(r, 6), null, r.choice([0, 0, 1])));
  const events = (n, f) => Array.from({ length: r.below(n) }, () => f(JSON.stringify(event(r))));
  switch (r.below(8)) {
    case 0:
      if (text.length > 0) text[r.below(text.length)] = r.below(256);
      return text;
    case 1:
      return text.subarray(0, r.below(text.length + 1));
    case 2:
      return Buffer.from(events(8, (e) => `data: ${e}\n\n`).join("") + "data: [DONE]\n\n");
    case 3:
      return Buffer.from(events(8, (e) => e).join("\n"));
    case 4: {
      const lines = r.choices(["event: error", "data: {", "data: }", ": x", "retry: 3", "", "data:", "id: 7", "data: oops"], 9);
      return Buffer.from(lines.join(r.choice(["\n", "\r\n", "\r"])));
    }
    case 5:
      return Buffer.from(`[${events(6, (e) => e).join(",")}]`);
  }
  return text;
}

test("random bodies", () => {
  const r = random(Number(process.env.LLMTAP_SEED ?? 1));
  const cases = Array.from({ length: Number(process.env.LLMTAP_BODIES ?? 6000) }, () => {
    const body = bodyOf(r);
    return [r.choice(["request", "response"]), r.choice(DIALECTS), body, r.choice([most(body), most(body), body.length])];
  });
  check(cases);
});

test("a worker returns the same shapes in order", async () => {
  const r = random(2);
  const worker = new ShapeWorker(Buffer.from(KEY));
  const shaper = new Shaper(Buffer.from(KEY));
  const jobs = Array.from({ length: 50 }, () => {
    const body = bodyOf(r);
    return { response: true, dialect: "openai_chat", body, limit: most(body) };
  });
  const got = await Promise.all(jobs.map((job) => worker.shape(job)));
  jobs.forEach((job, i) => assert.deepStrictEqual(got[i], shaper.shape(job)));
  worker.close();
});
