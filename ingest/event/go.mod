module github.com/llmtap/llmtap/ingest/event

go 1.25.0
