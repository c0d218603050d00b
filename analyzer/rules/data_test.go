package rules

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// variantOfHost is what the recordings need of the engine's table of hosts. A host that is not here is judged as
// OpenAI, the strictest: these recordings were all accepted.
var variantOfHost = map[string]facts.Variant{
	"api.deepseek.com": facts.DeepSeek, "api.mistral.ai": facts.Mistral, "api.groq.com": facts.Groq, "api.x.ai": facts.XAI,
	"openrouter.ai": facts.OpenRouter, "localhost:11434": facts.Ollama, "router.huggingface.co": facts.OtherVariant,
	"generativelanguage.googleapis.com": facts.GeminiOpenAI,
}

// TestAcceptedTraffic: no rule expects a rejection of a history that a provider accepted.
func TestAcceptedTraffic(t *testing.T) {
	type counts struct{ requests, withReplies, rejects, lenient int }
	checker := analyzer.NewChecker(All)
	judge := func(c *counts, id, url string, messages json.RawMessage) {
		var ms []map[string]json.RawMessage
		if json.Unmarshal(messages, &ms) != nil {
			return // a body that was refused for its shape, or one of another API
		}
		_, host, _ := strings.Cut(url, "://")
		host, _, _ = strings.Cut(host, "/")
		target := facts.Target{Dialect: facts.OpenAIChat, Variant: facts.OpenAI}
		if v, ok := variantOfHost[host]; ok {
			target.Variant = v
		}
		r := scan(t, target, messages)
		c.requests++
		for _, m := range r.Messages {
			if m.Role == facts.RoleTool {
				c.withReplies++
				break
			}
		}
		for _, v := range checker.Check(r, target) {
			if v.Predicted != analyzer.Reject {
				c.lenient++
				continue
			}
			c.rejects++
			t.Errorf("%s (%s) was accepted: [%s %s] %s", id, host, v.Rule.ID, v.Detail, v.Summary)
		}
	}

	t.Run("exchanges", func(t *testing.T) {
		var c counts
		lines(t, "../../../shared/data/exchanges.jsonl.gz", func(line []byte) {
			var x struct {
				ID, API, URL string
				Status       int
				Request      json.RawMessage
			}
			if err := json.Unmarshal(line, &x); err != nil {
				t.Fatalf("decode exchange: %v", err)
			}
			var body struct{ Messages json.RawMessage }
			if x.API != "openai.chat" || x.Status/100 != 2 || json.Unmarshal(x.Request, &body) != nil {
				return
			}
			judge(&c, x.ID, x.URL, body.Messages)
		})
		t.Logf("%+v", c)
	})
	t.Run("conversations", func(t *testing.T) {
		var c counts
		lines(t, "../../../shared/data/conversations.jsonl.gz", func(line []byte) {
			var x struct {
				ID, Format, URL string
				Status          int
				Messages        []json.RawMessage
				Sent            *int `json:"n_request"` // how many of Messages were sent; the rest is the answer
			}
			if err := json.Unmarshal(line, &x); err != nil {
				t.Fatalf("decode conversation: %v", err)
			}
			if x.Format != "openai.chat" || x.Status != 0 && x.Status/100 != 2 {
				return
			}
			n := len(x.Messages)
			if x.Sent != nil {
				n = *x.Sent
			} else if n > 0 && strings.Contains(string(x.Messages[n-1]), `"tool_calls"`) {
				n-- // a log that ends in the model's answer: its calls are not sent yet
			}
			b, err := json.Marshal(x.Messages[:n])
			if err != nil {
				t.Fatal(err)
			}
			judge(&c, x.ID, x.URL, b)
		})
		t.Logf("%+v", c)
	})
}

// lines calls f with each line of a compressed file of the shared data, or skips the test where it is absent.
func lines(t *testing.T, path string, f func([]byte)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Skipf("SKIPPED, the recorded traffic is not here: %v", err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	s := bufio.NewScanner(z)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		f(s.Bytes())
	}
	if err := s.Err(); err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
}
