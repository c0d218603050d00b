// Masked errors, subjects, header values, hosts and endings equal those of Go.
"use strict";

const assert = require("node:assert");
const { test } = require("node:test");
const { ask, internal, random, shared } = require("./go.cjs");

const { masked, truncate } = internal("redact.js");
const event = internal("event.js");
const { configure, InvalidEnvironment, resourceAttributes } = internal("config.js");
const { Hosts, parseHost } = internal("hosts.js");
const { endingOf } = internal("endings.js");
const { Capture, MAX_BODY } = internal("capture.js");
const { Queue } = internal("queue.js");

const latin1 = (s) => Buffer.from(s).toString("latin1");

test("error texts of the shared cases", () => {
  const { cases } = shared("redact.json");
  assert.ok(cases.length > 40);
  for (const c of cases) {
    const got = masked(latin1(c.in));
    assert.strictEqual(got, latin1(c.out ?? c.in), c.about);
    assert.strictEqual(masked(got), got, c.about);
  }
});

test("url is for NATS, whatever the environment says", () => {
  const env = { LLMTAP_ENDPOINT: "https://llmtap.example.com" };
  assert.strictEqual(configure({ url: "nats://a" }, env).endpoint, "");
  assert.strictEqual(configure({}, env).endpoint, "https://llmtap.example.com");
});

test("attributes of the shared cases", () => {
  for (const c of shared("attrs.json")) {
    assert.strictEqual(event.maskedAttr(event.clipAttr(c.in)), c.out, c.about);
  }
});

test("random error texts", () => {
  const pieces = [
    "sk-", "api", " ", "key", "api_key", "=", ":", '"', "'", "\\", "/", "//", "://", "@", ".", "com", "+", "%20", "%3D", "Bearer", "password",
    "abcdefgh12", "cookie", "arn", ":aws", "sts", "123456789012", "-----BEGIN ", "PRIVATE KEY", "-----END ", "***", "*", "\\n", "\\u00e9",
    "\xff", "\n", "provided", "token", "a", "-", "_", "0123456789abcdef0123456789abcdef", "eyJ",
  ];
  const r = random(1);
  const texts = Array.from({ length: 10000 }, () => r.choices(pieces, 1 + r.below(11)).join(""));
  const limit = (t) => Math.floor((t.length * 2) / 3);
  const answers = ask(texts.map((t) => ({ body: Buffer.from(t, "latin1").toString("base64"), limit: limit(t) })), "redact");
  texts.forEach((t, i) => {
    const [whole, part] = answers[i].map((a) => Buffer.from(a ?? "", "base64").toString("latin1"));
    assert.strictEqual(masked(t), whole, t);
    assert.strictEqual(truncate(t, limit(t)), part, t);
  });
});

test("subjects, values and ids", () => {
  const r = random(1);
  const alphabet = ["a", "Z", "0", "-", "_", ".", " ", "%", "~", "\x00", "\n", "é", "规", "😀", "\x7f", "ab", "svc"];
  const text = (most) => r.choices(alphabet, r.below(most)).join("");
  const questions = Array.from({ length: 3000 }, () => ({
    service: text(40), agent: text(5), conversation: text(4), instance: text(9), text: text(9),
  }));
  for (let n = 505; n < 520; n++) for (const tail of ["", " ", "é", "规规", "  y", "%"]) questions.push({ text: "x".repeat(n) + tail });
  questions.push(...questions.slice(0, 300).map((q, i) => ({ ...q, uncaptured: i + 1, hookStatus: ["", "alive", "ended"][i % 3], seq: i * i })));
  const answers = ask(questions, "event");
  questions.forEach((q, i) => {
    const [subject, stage, id, , uncaptured, status] = answers[i];
    const labels = new event.EventLabels();
    Object.assign(labels, { service: q.service ?? "", agent: q.agent ?? "", conversation: q.conversation ?? "", instance: q.instance ?? "" });
    labels.run = labels.stage = q.text;
    const ev = new event.Event(q.uncaptured ? "hook" : "run", labels);
    ev.step = q.hookStatus ?? "ok";
    ev.uncaptured = q.uncaptured ?? 0;
    ev.seq = q.seq ?? 0;
    const headers = Object.fromEntries(ev.headers());
    assert.strictEqual(ev.subject(), subject, JSON.stringify(q));
    assert.strictEqual(headers["Llmtap-Stage"] ?? "", stage, JSON.stringify(q));
    assert.strictEqual(headers["Llmtap-Uncaptured"] ?? "", uncaptured);
    assert.strictEqual(headers["Llmtap-Hook-Status"] ?? "", status);
    assert.strictEqual(ev.messageID(1), id, JSON.stringify(q));
  });
});

test("times", () => {
  assert.strictEqual(event.rfc3339(1_700_000_000_000), "2023-11-14T22:13:20Z");
  assert.strictEqual(event.rfc3339(1_700_000_000_120), "2023-11-14T22:13:20.12Z");
  assert.strictEqual(event.rfc3339(1_700_000_000_120.5), "2023-11-14T22:13:20.1205Z");
  assert.deepStrictEqual([0, -5, 1e-6, 1.5, 2000, 1e12].map(event.millis), ["0", "0", "0.000001", "1.5", "2000", "1000000000"]);
  assert.strictEqual(event.clip("x".repeat(511) + "é").length, 512);
});

test("hosts of the shared cases", () => {
  const spec = shared("hosts.json");
  for (const c of spec.cases) {
    if ((c.method ?? "POST") !== "POST") continue; // the clients' patches check the method
    for (const [hosts, env] of [[c.hosts ?? [], {}], [[], { LLMTAP_HOSTS: (c.hosts ?? []).join(", ") }]]) {
      const h = new Hosts(configure({ hosts }, env).hosts, () => undefined);
      const at = c.url.indexOf("/", c.url.indexOf("://") + 3);
      const [origin, path] = at < 0 ? [c.url, "/"] : [c.url.slice(0, at), c.url.slice(at)];
      const target = h.target(origin, path, () => c.type ?? "application/json");
      assert.strictEqual(target ? "recorded" : h.unrecorded > 0 ? "unrecorded" : "ignored", c.want, JSON.stringify(c));
    }
  }
  for (const host of spec.invalid) {
    assert.throws(() => parseHost(host), Error, host);
    assert.throws(() => configure({ hosts: [host] }, {}), TypeError);
    if (!host.includes(",")) assert.throws(() => configure({}, { LLMTAP_HOSTS: host }), InvalidEnvironment);
  }
});

test("configuration", () => {
  const env = { OTEL_SERVICE_NAME: "otel", OTEL_RESOURCE_ATTRIBUTES: "service.version=1%2C2,deployment.environment=prod,gen_ai.agent.name=a", GIT_COMMIT: "0123456789abcdef" };
  const c = configure({}, env);
  assert.deepStrictEqual([c.service, c.serviceVersion, c.environment, c.agent, c.capture], ["otel", "1,2", "prod", "a", "shape"]);
  const own = configure({}, { ...env, LLMTAP_SERVICE: "run", LLMTAP_SERVICE_VERSION: "3" });
  assert.deepStrictEqual([own.service, own.serviceVersion], ["run", "3"]);
  assert.deepStrictEqual(resourceAttributes("a=%zz,b = c ,d"), { b: "c" });
  for (const o of [{ capture: "all" }, { url: "http://x" }, { memoryLimit: 1 }, { flushTimeout: -1 }, { attrs: { "A b": 1 } }, { hosts: "x" }, { endpoint: "nats://x" }]) {
    assert.throws(() => configure(o, {}), TypeError, JSON.stringify(o));
  }
  const code = (given, variable) => configure({ code: given }, { LLMTAP_CODE: variable }).code;
  assert.deepStrictEqual([code(), code(undefined, "off"), code(true, "off"), code(false)], [true, false, true, false]);
  assert.throws(() => configure({}, { LLMTAP_NATS_URL: "ftp://secret@x" }), (e) => e instanceof InvalidEnvironment && !e.message.includes("secret"));
});

test("the end of a stream is found in pieces of any size", () => {
  const f = (type, text, tail) => {
    const whole = latin1(text + tail);
    for (let size = 1; size <= whole.length; size++) {
      const ending = endingOf(type);
      let end = -1;
      for (let at = 0; at < whole.length && end < 0; at += size) {
        const n = ending.feed(whole.slice(at, at + size));
        if (n >= 0) end = at + n;
      }
      assert.strictEqual(end, latin1(text).length, `${type}, pieces of ${size}: ${text}`);
    }
  };
  f("text/event-stream", 'data: {"a":"规"}\n\ndata: [DONE]\n\n', ": bye\n\n");
  f("text/event-stream; charset=utf-8", 'event: message_stop\r\ndata: {"type":"message_stop"}\r\n\r\n', "data: x\r\n\r\n");
  f("text/event-stream", 'data: {"type":"response.completed","response":{"id":"' + "x".repeat(99) + '"}}\n\n', "");
  f("application/x-ndjson", '{"message":"true"}\n{"done":true}\n', "{}\n");
});

test("long bodies are stubbed to their first and last 256 KiB", () => {
  const half = 256 << 10;
  for (const size of [1 << 10, 64 << 10, 1 << 20, 3 << 20]) {
    const queue = new Queue(64 << 20, () => undefined);
    const body = Buffer.alloc(MAX_BODY + 12345);
    for (let i = 0; i < body.length; i += 4) body.writeUInt32LE(i, i - (i % 4) > body.length - 4 ? body.length - 4 : i);
    const capture = new Capture(queue, MAX_BODY);
    for (let at = 0; at < body.length; at += size) capture.write(body.subarray(at, at + size));
    assert.ok(capture.cut);
    const [stub, reserved] = capture.take();
    assert.ok(stub.equals(Buffer.concat([body.subarray(0, half), body.subarray(-half)])));
    assert.strictEqual(queue.used, reserved);
    assert.strictEqual(reserved, 3 * half);
  }
});
