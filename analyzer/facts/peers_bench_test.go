package facts

import (
	"encoding/json"
	"testing"

	"github.com/bytedance/sonic"
	"github.com/minio/simdjson-go"

	"github.com/llmtap/llmtap/ingest/wire"
)

// peerRequest is what a program that uses a JSON library would read of a request of any dialect to find calls and
// replies: of each message or part the members that name them, and the rest raw.
type peerRequest struct {
	Model                     string
	Stream                    bool
	Messages, Input, Contents []peerMessage
}

type peerMessage struct {
	Role, Type string
	Content    json.RawMessage
	Parts      []peerPart
	ToolCallID string     `json:"tool_call_id"`
	ToolCalls  []peerCall `json:"tool_calls"`
	peerItem
}

type peerCall struct {
	ID, Type string
	Function struct {
		Name      string
		Arguments json.RawMessage
	}
}

type peerItem struct {
	CallID    string `json:"call_id"`
	Name      string
	Arguments json.RawMessage
	Output    json.RawMessage
}

type peerPart struct {
	Type, ID         string
	Text             json.RawMessage
	ToolUseID        string `json:"tool_use_id"`
	Name             string
	Input            json.RawMessage
	ToolUse          *struct{ ToolUseID, Name string }
	ToolResult       *struct{ ToolUseID, Status string }
	FunctionCall     *struct{ ID, Name string }
	FunctionResponse *struct{ ID, Name string }
}

// read finds the parts too, where content is an array of them.
func (r *peerRequest) read(body []byte, unmarshal func([]byte, any) error) error {
	if err := unmarshal(body, r); err != nil {
		return err
	}
	for i := range r.Messages {
		if c := r.Messages[i].Content; len(c) > 0 && c[0] == '[' {
			if err := unmarshal(c, &r.Messages[i].Parts); err != nil {
				return err
			}
		}
	}
	return nil
}

// BenchmarkPeers scans one agent history of 100 KB in each dialect, and reads it with three JSON libraries: encoding/json
// and sonic into structs, simdjson-go to its tape, without a look at what is on it. None of them judges arguments or
// hashes messages.
func BenchmarkPeers(b *testing.B) {
	for _, d := range []struct {
		dialect wire.Dialect
		body    []byte
	}{
		{wire.OpenAIChat, agentSession(b, 100_000, 1)},
		{wire.OpenAIResponses, responsesSession(b, 100_000, 1)},
		{wire.Anthropic, anthropicSession(b, 100_000, 1)},
		{wire.Gemini, geminiSession(b, 100_000, 1)},
		{wire.Bedrock, bedrockSession(100_000)},
	} {
		run := func(name string, read func() error) {
			b.Run(string(d.dialect)+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(d.body)))
				b.ReportAllocs()
				for b.Loop() {
					if err := read(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		var f Request
		run("llmtap", func() error { return ScanRequest(d.dialect, d.body, &f) })
		run("encoding_json", func() error { return new(peerRequest).read(d.body, json.Unmarshal) })
		run("sonic", func() error { return new(peerRequest).read(d.body, sonic.Unmarshal) })
		if !simdjson.SupportedCPU() {
			b.Log("SKIPPED: simdjson-go needs a processor with AVX2 and CLMUL")
			continue
		}
		var tape *simdjson.ParsedJson
		run("simdjson_go", func() error {
			var err error
			tape, err = simdjson.Parse(d.body, tape, simdjson.WithCopyStrings(false))
			return err
		})
	}
}
