module github.com/llmtap/llmtap/ingest/shape

go 1.25.0

require (
	github.com/llmtap/llmtap/ingest/event v0.0.0
	github.com/llmtap/llmtap/ingest/wire v0.0.0
)

replace (
	github.com/llmtap/llmtap/ingest/event => ../event
	github.com/llmtap/llmtap/ingest/wire => ../wire
)
