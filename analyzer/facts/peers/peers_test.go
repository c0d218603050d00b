// Package peers measures the scanner of package facts next to JSON libraries. It is a module of its own, so that llmtap does
// not require them.
package peers

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bytedance/sonic"
	"github.com/minio/simdjson-go"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
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
	dir := b.TempDir()
	write := exec.CommandContext(b.Context(), "go", "test", "-run", "^TestWriteSessions$", "-count=1", ".", "-sessions", dir)
	write.Dir = ".."
	if out, err := write.CombinedOutput(); err != nil {
		b.Fatalf("write sessions: %v\n%s", err, out)
	}
	for _, dialect := range []wire.Dialect{wire.OpenAIChat, wire.OpenAIResponses, wire.Anthropic, wire.Gemini, wire.Bedrock} {
		body, err := os.ReadFile(filepath.Join(dir, string(dialect)))
		must.Do(b, err)
		run := func(name string, read func() error) {
			b.Run(string(dialect)+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					must.Do(b, read())
				}
			})
		}
		var f facts.Request
		run("llmtap", func() error { return facts.ScanRequest(dialect, body, &f) })
		run("encoding_json", func() error { return new(peerRequest).read(body, json.Unmarshal) })
		run("sonic", func() error { return new(peerRequest).read(body, sonic.Unmarshal) })
		if !simdjson.SupportedCPU() {
			b.Log("SKIPPED: simdjson-go needs a processor with AVX2 and CLMUL")
			continue
		}
		var tape *simdjson.ParsedJson
		run("simdjson_go", func() error {
			var err error
			tape, err = simdjson.Parse(body, tape, simdjson.WithCopyStrings(false))
			return err
		})
	}
}
