package facts

import (
	"encoding/json"
	"testing"

	"github.com/bytedance/sonic"
	"github.com/minio/simdjson-go"
)

// peerRequest is what a program that uses a JSON library would read of a chat request to find the same facts.
type peerRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function struct {
				Name      string          `json:"name"`
				Arguments json.RawMessage `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

// BenchmarkPeers scans one 100 KB chat request, and reads it with three JSON libraries: encoding/json and sonic into
// structs, simdjson-go to its tape, without a look at what is on it. None of them judges arguments or hashes messages.
func BenchmarkPeers(b *testing.B) {
	body := agentSession(b, 100_000, 1)
	run := func(name string, read func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	var f Request
	run("llmtap", func() error { return ScanRequest(OpenAIChat, body, &f) })
	run("encoding_json", func() error {
		var r peerRequest
		return json.Unmarshal(body, &r)
	})
	run("sonic", func() error {
		var r peerRequest
		return sonic.Unmarshal(body, &r)
	})
	if !simdjson.SupportedCPU() {
		b.Log("SKIPPED: simdjson-go needs a processor with AVX2 and CLMUL")
		return
	}
	var tape *simdjson.ParsedJson
	run("simdjson_go", func() error {
		var err error
		tape, err = simdjson.Parse(body, tape, simdjson.WithCopyStrings(false))
		return err
	})
}
