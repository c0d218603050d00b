// Calls with the SDKs and frameworks, until the model calls no more tools.
"use strict";

const TOOL_REPLY = "-3 °C";

async function readAll(stream) {
  for await (const _ of stream);
}

async function callOpenAI(c) {
  const { OpenAI } = require("openai");
  const client = new OpenAI({ baseURL: c.base + "/openai/v1", apiKey: "sk-secret", maxRetries: c.retries });
  const chat = { ...c.chat };
  for (;;) {
    const r = await client.chat.completions.create(chat);
    if (chat.stream) return readAll(r);
    const { message } = r.choices[0];
    if (!message.tool_calls?.length) return undefined;
    const replies = message.tool_calls.map((t) => ({ role: "tool", tool_call_id: t.id, content: TOOL_REPLY }));
    chat.messages = [...chat.messages, message, ...replies];
  }
}

async function callAnthropic(c) {
  const { Anthropic } = require("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: c.base + "/anthropic", apiKey: "sk-secret", maxRetries: c.retries });
  const r = await client.messages.create(c.chat);
  if (c.chat.stream) await readAll(r);
}

async function callGemini(c) {
  const { GoogleGenAI } = require("@google/genai");
  const client = new GoogleGenAI({ apiKey: "secret", httpOptions: { baseUrl: c.base } });
  const { stream, ...chat } = c.chat;
  if (chat.input) {
    const r = await client.interactions.create(c.chat);
    if (stream) await readAll(r);
  } else if (stream) await readAll(await client.models.generateContentStream(chat));
  else await client.models.generateContent(chat);
}

async function callLangChain(c) {
  const { ChatOpenAI } = require("@langchain/openai");
  const { ToolMessage } = require("@langchain/core/messages");
  const { chat } = c;
  let model = new ChatOpenAI({ model: chat.model, apiKey: "sk-secret", maxRetries: c.retries, configuration: { baseURL: c.base + "/openai/v1" } });
  if (chat.tools) model = model.bindTools(chat.tools, { parallel_tool_calls: true });
  const messages = [...chat.messages];
  if (chat.stream) return readAll(await model.stream(messages));
  for (;;) {
    const answer = await model.invoke(messages);
    if (!answer.tool_calls?.length) return undefined;
    messages.push(answer, ...answer.tool_calls.map((t) => new ToolMessage({ content: TOOL_REPLY, tool_call_id: t.id })));
  }
}

/** The messages and tools of a chat in the form of the AI SDK. */
function forAI(chat) {
  const { jsonSchema, tool } = require("ai");
  const tools = {};
  for (const t of chat.tools ?? []) {
    const { name, description, parameters } = t.function ?? { ...t, parameters: t.input_schema };
    tools[name] = tool({ description, inputSchema: jsonSchema(parameters), execute: async () => TOOL_REPLY });
  }
  const messages = chat.messages.map(({ role, content }) => ({ role, content }));
  return { messages, ...(chat.tools ? { tools } : {}) };
}

function byAI(model) {
  return async (c) => {
    const { generateText, stepCountIs, streamText } = require("ai");
    const options = { model: model(c), ...forAI(c.chat), maxRetries: c.retries, stopWhen: stepCountIs(8), allowSystemInMessages: true };
    if (c.chat.stream) await readAll(streamText({ ...options, onError: () => undefined }).fullStream);
    else await generateText(options);
  };
}

const callAIOpenAI = byAI((c) =>
  require("@ai-sdk/openai").createOpenAI({ baseURL: c.base + "/openai/v1", apiKey: "sk-secret" }).chat(c.chat.model),
);
const callAIAnthropic = byAI((c) =>
  require("@ai-sdk/anthropic").createAnthropic({ baseURL: c.base + "/anthropic/v1", apiKey: "sk-secret" })(c.chat.model),
);

/** Bedrock over HTTP/1, with c.http2 over HTTP/2. */
function callBedrock(handler) {
  return async (c) => {
    const bedrock = require("@aws-sdk/client-bedrock-runtime");
    const { stream, ...chat } = c.chat;
    const client = new bedrock.BedrockRuntimeClient({
      region: "eu-west-1", endpoint: c.base, maxAttempts: 1 + c.retries,
      credentials: { accessKeyId: "AKIAIOSFODNN7EXAMPLE", secretAccessKey: "secret" },
      ...handler(),
    });
    try {
      if (stream) await readAll((await client.send(new bedrock.ConverseStreamCommand(chat))).stream);
      else await client.send(new bedrock.ConverseCommand(chat));
    } finally {
      client.destroy();
    }
  };
}

module.exports = {
  "openai-node": callOpenAI,
  "anthropic-node": callAnthropic,
  "google-genai-node": callGemini,
  "langchain-node": callLangChain,
  "ai-openai": callAIOpenAI,
  "ai-anthropic": callAIAnthropic,
  "bedrock-node": callBedrock(() => ({ requestHandler: new (require("@smithy/node-http-handler").NodeHttpHandler)() })),
  "bedrock-node-http2": callBedrock(() => ({})),
};
