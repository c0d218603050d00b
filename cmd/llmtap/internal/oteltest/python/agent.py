"""An agent that is instrumented with OpenTelemetry and has no hook.

usage: agent.py INSTRUMENTATION PROTOCOL CALLS

Healthy calls with tools, parallel calls and streams, each the turn of a conversation, then one call that the provider
refuses with status 400. The exporters read OTEL_EXPORTER_OTLP_ENDPOINT; PROVIDER is the base URL of the provider.
"""

import os
import sys

import openai
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

INSTRUMENTATION, PROTOCOL, CALLS = sys.argv[1], sys.argv[2], int(sys.argv[3])

if PROTOCOL == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

resource = Resource.create({
    "service.name": f"otel-{INSTRUMENTATION}-{PROTOCOL}", "service.version": "1.2.3", "deployment.environment.name": "test",
})
traces = TracerProvider(resource=resource)
traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=1 << 16))
trace.set_tracer_provider(traces)
providers = [traces]

if INSTRUMENTATION == "openai-v2":
    from opentelemetry._logs import set_logger_provider
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    logs = LoggerProvider(resource=resource)
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    set_logger_provider(logs)
    providers.append(logs)
elif INSTRUMENTATION == "traceloop":
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor
else:
    if INSTRUMENTATION == "langchain":  # each call then has two spans
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument()
    from openinference.instrumentation.openai import OpenAIInstrumentor
OpenAIInstrumentor().instrument()

# The conversation is set on every span, as an agent's own span processor does.
from opentelemetry.context import attach, detach, get_value, set_value
from opentelemetry.sdk.trace import SpanProcessor


class Conversation(SpanProcessor):
    def on_start(self, span, parent_context=None):
        if name := get_value("conversation", parent_context):
            span.set_attribute("gen_ai.conversation.id", name)
            span.set_attribute("gen_ai.agent.name", "planner")
            span.set_attribute("user.id", "jane@example.com")


traces.add_span_processor(Conversation())
tracer = trace.get_tracer("agent")

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}}
    for name in ("read_file", "list_dir")
]
client = openai.OpenAI(base_url=os.environ["PROVIDER"], api_key="sk-test-0123456789abcdef0123456789abcdef", max_retries=0)


def ask_langchain(messages, stream):
    from langchain_core.messages import convert_to_openai_messages
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-4.1", base_url=os.environ["PROVIDER"], api_key="sk-test", max_retries=0, stream_usage=True)
    model = model.bind_tools(TOOLS, parallel_tool_calls=True)
    if not stream:
        return convert_to_openai_messages(model.invoke(messages))
    whole = None
    for chunk in model.stream(messages):
        whole = chunk if whole is None else whole + chunk
    return convert_to_openai_messages(whole)


def ask(messages, stream):
    if INSTRUMENTATION == "langchain":
        return ask_langchain(messages, stream)
    if not stream:
        r = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=TOOLS, parallel_tool_calls=True)
        return r.choices[0].message.model_dump(exclude_none=True)
    text, calls = "", {}
    chunks = client.chat.completions.create(
        model="gpt-4.1", messages=messages, tools=TOOLS, parallel_tool_calls=True, stream=True, stream_options={"include_usage": True})
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for c in choice.delta.tool_calls or []:
                call = calls.setdefault(c.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
                call["id"] = c.id or call["id"]
                call["function"]["name"] += c.function.name or ""
                call["function"]["arguments"] += c.function.arguments or ""
    message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [calls[i] for i in sorted(calls)]
    return message


def converse(i, calls):
    """Makes at most the given number of calls in one conversation, and returns how many it made."""
    token = attach(set_value("conversation", f"conversation-{i}"))
    try:
        with tracer.start_as_current_span("task"):
            steps = "\n".join(f'- read_file {{"path": "{n}.go"}}' for n in range(i % 4 + 1))
            messages = [{"role": "system", "content": "You are careful."}, {"role": "user", "content": f"Task {i}\n{steps}"}]
            for n in range(1, calls + 1):
                answer = ask(messages, stream=i % 2 == 1)
                messages.append(answer)
                if not answer.get("tool_calls"):
                    return n
                messages += [{"role": "tool", "tool_call_id": c["id"], "content": "package main"} for c in answer["tool_calls"]]
            return calls
    finally:
        detach(token)


made, i = 0, 0
while made < CALLS:
    made += converse(i, CALLS - made)
    i += 1

# A history that lost the calls that its tool message answers.
token = attach(set_value("conversation", "conversation-broken"))
try:
    with tracer.start_as_current_span("task"):
        ask([
            {"role": "user", "content": "read config.py"}, {"role": "assistant", "content": "I will."},
            {"role": "tool", "tool_call_id": "call_1", "content": "PORT=80"}], stream=False)
    sys.exit("the provider accepted an orphan tool reply")
except openai.BadRequestError:
    pass
detach(token)
for provider in providers:
    provider.force_flush()
    provider.shutdown()
print(made)
