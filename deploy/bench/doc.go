// Command bench measures llmtap beside an OpenTelemetry Collector that stores the same LLM calls in the same ClickHouse
// engine, without losing one:
//
//	load ── NATS ──> llmtap up ─────────────────────> ClickHouse
//	load ── OTLP ──> collector (queue on disk) ─────> ClickHouse
//
// It builds both, runs them in turns, and prints for each workload
//
//	rate     bytes of bodies by the time from the first call until the last one is stored
//	CPU      seconds of all processes but the load, until ClickHouse has merged what it merges at once
//	memory   the largest sum of the resident sets of all processes but the load
//	disk     what ClickHouse keeps
//	queue    what NATS, or the collector's queue, keeps
//
// Bodies are texts of Go's own sources, so that they compress as real code does, and no two calls have the same text except
// for a prompt and what a conversation repeats. The workload fleet sends the calls of llmtap bench, replay recorded exchanges
// (-replay).
//
//	go run ./deploy/bench -runs 3
//	go run ./deploy/bench -only 10KB,50turns -runs 1 -peer=false
//	go run ./deploy/bench -replay ../shared/data/exchanges.jsonl.gz
package main
