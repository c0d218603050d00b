// Command bench measures llmtap, as processes of its own in a temporary directory.
//
//	load ── NATS ──> llmtap up ─────────────────────> ClickHouse
//	load ── OTLP ──> collector (queue on disk) ─────> ClickHouse
//
// Its first argument is what it measures:
//
//	compare  llmtap and an OpenTelemetry Collector store the same calls as fast as they can, in turns, each in the same
//	         ClickHouse engine, without losing one
//	proxy    what the proxies of llmtap, LiteLLM and Portkey, and a bare httputil.ReverseProxy, add to calls of the same provider
//	rate     llmtap stores the calls of a fleet that come at a rate; without -rate, the highest rate that it sustains
//	size     nothing: it computes what a fleet needs, and what breaks first, from constants that rate measured (size.go)
//	stores   llmtap, Phoenix and MLflow store the same spans, sent over HTTP, as fast as they can
//
// pip and npm install the peers into the user's cache when they are measured first. Each mode prints a table, in Markdown. Its columns are
//
//	calls, MB   of bodies, by the second from the first call until the last one is stored
//	steady      from 5 seconds after the first call until the last one is published: calls that were stored, and the CPU for them;
//	            load's is that of the processes that make the calls
//	behind      between publishing a call and a query that counts it, at most: median and 99th percentile
//	to alert    from the call with which a stage has failed too often, one every 3 seconds, to the webhook
//	drain       from the last call until all are stored
//	CPU         of all processes but the load, until ClickHouse has merged what it merges at once
//	memory      the largest sum of the resident sets of these processes
//	search      a query that counts the bodies with a rare word, the fastest of three
//	disk        what ClickHouse keeps
//	queue       what NATS, or the collector's queue, keeps
//	lost        calls that were published and are not stored; double: calls that are stored twice
//
// # Workloads
//
// The bodies of single calls and of conversations are texts of Go's own sources, so that they compress as real code does, and
// no two calls have the same text except for a prompt and what a conversation repeats. The calls of a fleet have the sizes,
// turns, tools and errors of recorded traffic (package load). The workload replay sends recorded exchanges.
//
// With -processes, each agent of a fleet is a process with the Go hook, whose calls are answered in the process.
//
// # Indexes of words
//
// llmtap's messages have an index of their words, with which messages_with searches, and the table of the collector's exporter has
// none: its indexes are of whole values. compare -words both adds the same index to that table, and -words none removes llmtap's.
// On both sides merges build the indexes, not inserts, and llmtap's compress bodies: compare runs of a gigabyte at least (-mb 1000).
//
// # Proxies
//
// The provider answers after 10 ms, whole or in 20 chunks every 5 ms. The proxies do what they do without further settings: llmtap's
// records shapes in its own NATS on disk, or with all roles analyzes and stores whole bodies; LiteLLM's checks a key and needs no
// database; Portkey's records nothing.
//
// # When a rate is sustained
//
// Rows are written in batches of up to 3 seconds, so the backlog rises and falls by as much all the time, and its slope says
// little in a few seconds. A rate is sustained if all calls are stored within 5 seconds of the last one: what llmtap is too slow
// by adds up and has to be stored after it. In a step of 10 seconds this tolerates 15 %, in one of 30 seconds 5 %; therefore the
// rate that the search found is confirmed for a longer time, or lowered.
//
//	go run ./deploy/bench compare -runs 3
//	go run ./deploy/bench compare -only 10KB,50turns -runs 1 -peer=false
//	go run ./deploy/bench compare -only replay -alone -replay ../shared/data/exchanges.jsonl.gz
//	go run ./deploy/bench compare -replay ../shared/data/exchanges.jsonl.gz
//	go run ./deploy/bench compare -only 10KB -mb 1000 -words both
//	go run ./deploy/bench proxy -rate 10
//	go run ./deploy/bench rate
//	go run ./deploy/bench rate -shape short -processes 200 -rate 2000 -for 65s
//	go run ./deploy/bench rate -rate 400 -for 30m -sample 30s
//	go run ./deploy/bench rate -rate 200 -for 2m -outage 60s
//	go run ./deploy/bench rate -analyzers 4
//	go run ./deploy/bench size -calls 500 -call-bytes 60000 -new-bytes 3000
//	go run ./deploy/bench stores
package main
