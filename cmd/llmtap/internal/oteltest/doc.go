// Package oteltest tests that agents instrumented with OpenTelemetry are seen without a hook.
//
//	agent ── openai SDK ──> provider, as strict as the real one
//	   │ instrumentation: opentelemetry-instrumentation-openai-v2, OpenLLMetry, OpenInference
//	   v
//	OpenTelemetry SDK ── OTLP over HTTP or gRPC ──> collector ──> NATS ──> analyzer ──> ClickHouse
//
// Each agent makes 1,000 healthy calls with tools, parallel calls and streams, and one call that the provider refuses. By
// default one Python agent runs; with -otel all instrumentations of Python and Node run, over HTTP and gRPC.
package oteltest
