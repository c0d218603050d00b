// The agent of python/agent.py for Node.
//
// usage: agent.mjs INSTRUMENTATION PROTOCOL CALLS
import process from 'node:process';
import { context, createContextKey, trace } from '@opentelemetry/api';
import { OTLPTraceExporter as GRPCExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as HTTPExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resources, tracing, NodeSDK } from '@opentelemetry/sdk-node';
import OpenAI from 'openai';

const [name, protocol, callsText] = process.argv.slice(2);
const instrumentation = name.replace(/^node-/, '');
const calls = Number(callsText);
const conversation = createContextKey('conversation');

// The conversation is set on every span, as an agent's own span processor does.
const labels = {
  onStart(span, parent) {
    const id = parent.getValue(conversation);
    if (id) span.setAttributes({ 'gen_ai.conversation.id': id, 'gen_ai.agent.name': 'planner', 'user.id': 'jane@example.com' });
  },
  onEnd() {}, forceFlush: async () => {}, shutdown: async () => {},
};

let instrument;
if (instrumentation === 'traceloop') {
  const { OpenAIInstrumentation } = await import('@traceloop/instrumentation-openai');
  instrument = new OpenAIInstrumentation();
  instrument.manuallyInstrument(OpenAI);
} else if (instrumentation === 'openinference') {
  const { OpenAIInstrumentation } = await import('@arizeai/openinference-instrumentation-openai');
  instrument = new OpenAIInstrumentation();
  instrument.manuallyInstrument(OpenAI);
} else {
  const { OpenAIInstrumentation } = await import('@opentelemetry/instrumentation-openai');
  instrument = new OpenAIInstrumentation({ captureMessageContent: true });
}

const exporter = protocol === 'grpc' ? new GRPCExporter() : new HTTPExporter();
const sdk = new NodeSDK({
  resource: resources.resourceFromAttributes({
    'service.name': `otel-${name}-${protocol}`, 'service.version': '1.2.3', 'deployment.environment.name': 'test',
  }),
  spanProcessors: [labels, new tracing.BatchSpanProcessor(exporter, { maxQueueSize: 1 << 16 })],
  instrumentations: [instrument],
});
sdk.start();

// @opentelemetry/instrumentation-openai patches what is loaded after its start.
const { createRequire } = await import('node:module');
const Client = instrumentation === 'otel' ? createRequire(import.meta.url)('openai').OpenAI : OpenAI;
const client = new Client({ baseURL: process.env.PROVIDER, apiKey: 'sk-test-0123456789abcdef0123456789abcdef', maxRetries: 0 });
const tools = ['read_file', 'list_dir'].map((name) => ({
  type: 'function', function: { name, parameters: { type: 'object', properties: { path: { type: 'string' } } } },
}));

async function ask(messages, stream) {
  const params = { model: 'gpt-4.1', messages, tools, parallel_tool_calls: true };
  if (!stream) return (await client.chat.completions.create(params)).choices[0].message;
  const message = { role: 'assistant', content: '' };
  for await (const chunk of await client.chat.completions.create({ ...params, stream: true, stream_options: { include_usage: true } })) {
    for (const { delta } of chunk.choices) {
      message.content += delta.content ?? '';
      for (const c of delta.tool_calls ?? []) {
        message.tool_calls ??= [];
        const call = (message.tool_calls[c.index] ??= { id: '', type: 'function', function: { name: '', arguments: '' } });
        call.id = c.id ?? call.id;
        call.function.name += c.function?.name ?? '';
        call.function.arguments += c.function?.arguments ?? '';
      }
    }
  }
  return message;
}

function within(name, work) {
  return context.with(context.active().setValue(conversation, name), () => trace.getTracer('agent').startActiveSpan('task', async (span) => {
    try {
      return await work();
    } finally {
      span.end();
    }
  }));
}

const converse = (i, limit) => within(`conversation-${i}`, async () => {
  const steps = Array.from({ length: (i % 4) + 1 }, (_, n) => `- read_file {"path": "${n}.go"}`).join('\n');
  const messages = [{ role: 'system', content: 'You are careful.' }, { role: 'user', content: `Task ${i}\n${steps}` }];
  for (let n = 1; n <= limit; n++) {
    const answer = await ask(messages, i % 2 === 1);
    messages.push(answer);
    if (!answer.tool_calls) return n;
    for (const c of answer.tool_calls) messages.push({ role: 'tool', tool_call_id: c.id, content: 'package main' });
  }
  return limit;
});

let made = 0;
for (let i = 0; made < calls; i++) made += await converse(i, calls - made);

// A history that lost the calls that its tool message answers.
let refused = false;
await within('conversation-broken', async () => {
  try {
    await client.chat.completions.create({
      model: 'gpt-4.1', messages: [
        { role: 'user', content: 'read config.py' }, { role: 'assistant', content: 'I will.' }, { role: 'tool', tool_call_id: 'call_1', content: 'PORT=80' },
      ],
    });
  } catch (err) {
    refused = err.status === 400;
  }
});
await sdk.shutdown();
if (!refused) throw new Error('the provider accepted an orphan tool reply');
console.log(made);
