module github.com/llmtap/llmtap/analyzer/facts/peers

go 1.26.8

require (
	github.com/bytedance/sonic v1.15.5
	github.com/llmtap/llmtap v0.1.0
	github.com/llmtap/llmtap/ingest/sdk/go v0.1.0
	github.com/minio/simdjson-go v0.4.5
)

require (
	github.com/bytedance/gopkg v0.1.3 // indirect
	github.com/bytedance/sonic/loader v0.5.3 // indirect
	github.com/cloudwego/base64x v0.1.6 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/arch v0.0.0-20210923205945-b76863e36670 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
