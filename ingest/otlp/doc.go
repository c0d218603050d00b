// Package otlp receives the spans and log records of agents that are instrumented with OpenTelemetry, over HTTP and gRPC,
// and maps those that describe LLM calls to events.
//
//	agent ── OpenTelemetry SDK ── OTLP ──> Receiver ──> Mapper.Traces ─┐
//	                                          │                        │ per LLM span: a request and a response,
//	                                          │                        │ Origin otlp, Degraded
//	                                          │      Mapper.Logs ──────┤
//	                                          │                        v
//	   <── 200, partial success, 429, 503 ────┴──────────────── Options.Publish ──> NATS JetStream
//
// # What is read
//
// The first attribute that is set is used. The names are the current ones of the semantic conventions, then older ones, then
// those of OpenLLMetry, OpenInference and the Vercel AI SDK; attrs.go has all.
//
//	LLM call         gen_ai.operation.name chat, text_completion or generate_content; openinference.span.kind LLM;
//	                 llm.request.type chat or completion; ai.operationId *.doGenerate or *.doStream
//	service          resource service.name, service.version, service.instance.id, deployment.environment(.name)
//	agent, stage     gen_ai.agent.name, agent.name; llmtap.stage
//	conversation     gen_ai.conversation.id, session.id, traceloop.association.properties.{conversation,session,thread}_id
//	run              llmtap.run, else the trace id
//	user             user.id, enduser.id, traceloop.association.properties.user_id; hashed
//	provider         gen_ai.provider.name, gen_ai.system, llm.provider, llm.system; server.address, server.port, *.api_base
//	models           gen_ai.request.model, llm.request.model, llm.model_name; gen_ai.response.model
//	answer           gen_ai.response.id, gen_ai.response.finish_reasons, llm.response.finish_reason
//	tokens           gen_ai.usage.{input,output}_tokens, .{prompt,completion}_tokens, llm.usage.*, llm.token_count.*, ai.usage.*
//	latency          start and end of the span; gen_ai.response.time_to_first_chunk, or the event of the first token
//	status           http.response.status_code, or error.type, or the number or class in the text of the SDK's error
//	error            event exception, description of the span's status, error.type
//	messages         gen_ai.{system_instructions,input.messages,output.messages}, gen_ai.prompt.N.*, llm.input_messages.N.*,
//	                 ai.prompt.messages, and the span events gen_ai.{system,user,assistant,tool}.message and gen_ai.choice
//
// From these, the bodies of request and response are written in the dialect of the provider: model, stream, messages, and
// model, id, finish reason, calls and usage. They are not the bytes that were sent.
//
// # Why no finding comes from a span
//
// Instrumentations drop calls, replies and ids, parse arguments, and cut texts at the attribute limit of the SDK. A rule
// that reads such messages reports defects of the instrumentation. All events are therefore Degraded, and the analyzer
// neither judges the messages of degraded requests nor adds them to conversations; it only stores them. Calls, tokens,
// latencies, failures and their causes by the provider's text are counted as those of a hook. A hook or the proxy sees what
// was sent.
//
// # Why two spans may count once
//
// With a framework and a provider's SDK instrumented, each call has two spans. A span counts only if no span of an LLM call
// of the same service is below it; the walk ends at the spans of tools, agents and workflows. Some frameworks' spans are
// beside those of the SDK instead, because they do not set the current span (OpenInference for LangChain). Such a span does
// not count if one of another instrumentation has the same parent, model, tokens and outcome, and was open within its time.
//
// Spans are remembered for later payloads, because queues and retries change their order. If the outer span comes first, it
// is stored, and the first call below it does not count: one row in either case, with the data of the span that came first.
// A failed call below one that succeeded counts too, because an SDK repeated it.
//
// Nothing is held back until other spans had time to come. Any LLM span may be an outer one, so all would be late, and those
// that were acknowledged would be lost if the process is killed. What is remembered of a payload is stored in NATS before its
// events, and the next process reads it before its first payload.
//
// What cannot be recognized: the outer and the inner span, if a span between them comes after both (counted by
// llmtap_ingest_otlp_exchanges_twice_total, and logged); spans without a parent that are in different traces;
// spans that a load balancer sends to different collectors, unless it routes by trace id, as the exporter loadbalancing of the
// OpenTelemetry Collector does; those that arrive after too many others (see Bounds); and a call that a hook records too.
//
// # Why ids come from the span
//
// An exporter that got no answer sends a payload again. The exchange's id is the UUIDv5 of trace and span id, so the second
// copy is ignored for half an hour, by JetStream or the analyzer, and later its row replaces that of the first.
//
// # Why metrics are accepted
//
// Exporters of all signals share one endpoint. If the receiver refused metrics, each agent would log an error a minute. They
// are counted and dropped, and the receiver logs that once.
//
// # Bounds
//
// A payload has at most 32 MiB after decompression. Its memory, four times its size, is taken from the budget that all
// receivers share, before it is read; when that is used up, the exporter is told when to send the payload again. A payload has
// at most 16,384 LLM calls.
//
// Values nested over 49 deep, in JSON over 125, are refused, because the decoders recurse: 14 MB of nested lists would
// end the process. Up to 131,072 spans are remembered (20 MiB), and the newest 32 calls of 16,384 parents (56 MiB at most);
// the oldest are forgotten. NATS keeps 32 MiB of them for two hours. 4,096 messages are read of a span, and 4 KiB of an error
// text, in which credentials are masked.
//
// # Why gRPC is served by net/http
//
// A call of an exporter has one message and one answer. Over HTTP/2 that is a body with five bytes before the message, and a
// status in the trailers, which grpc.go writes. So there is one handler, with one set of limits, for both; grpc-go has 65
// packages, which took 3 % of the compiler's time, and read messages before anything could take their memory from the budget.
//
// # Cost
//
// Decoding and mapping takes about 45 us per LLM call with its messages, so one core serves 20,000 calls/s (go test -run -
// -bench . ./ingest/otlp).
package otlp
