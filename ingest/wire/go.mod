module github.com/llmtap/llmtap/ingest/wire

go 1.25.0
