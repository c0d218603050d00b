package facts

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var sessions = flag.String("sessions", "", "directory for the agent histories that the module in peers/ measures")

func TestWriteSessions(t *testing.T) {
	if *sessions == "" {
		t.Skip("writes the input of the benchmark in peers/")
	}
	for dialect, body := range map[wire.Dialect][]byte{
		wire.OpenAIChat:      agentSession(t, 100_000, 1),
		wire.OpenAIResponses: responsesSession(t, 100_000, 1),
		wire.Anthropic:       anthropicSession(t, 100_000, 1),
		wire.Gemini:          geminiSession(t, 100_000, 1),
		wire.Bedrock:         bedrockSession(t, 100_000, 0),
	} {
		must.Do(t, os.WriteFile(filepath.Join(*sessions, string(dialect)), body, 0o600))
	}
}
