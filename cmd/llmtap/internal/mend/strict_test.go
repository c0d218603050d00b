package mend

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/repair"
	"github.com/llmtap/llmtap/analyzer/rulestest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// strict are the targets that the provider of the demo stands for, and where it serves them.
var strict = []struct {
	target wire.Target
	path   string
}{
	{wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OpenAI}, provider.OpenAIPath + "/chat/completions"},
	{wire.Target{Dialect: wire.OpenAIChat, Variant: wire.DeepSeek}, provider.DeepSeekPath + "/chat/completions"},
	{wire.Target{Dialect: wire.OpenAIChat, Variant: wire.Qwen}, provider.QwenPath + "/chat/completions"},
	{wire.Target{Dialect: wire.OpenAIChat, Variant: wire.GeminiOpenAI}, provider.GeminiPath + "/chat/completions"},
	{wire.Target{Dialect: wire.OpenAIChat, Variant: wire.Mistral}, provider.MistralPath + "/chat/completions"},
	{wire.Target{Dialect: wire.OpenAIChat, Variant: wire.Groq}, provider.GroqPath + "/chat/completions"},
	{wire.Target{Dialect: wire.Anthropic, Variant: wire.AnthropicAPI}, provider.AnthropicPath + "/v1/messages"},
}

var all = flag.Bool("all", false, "play all recorded conversations, which takes minutes")

// post returns the status and the text of the strict provider's answer.
func post(h http.Handler, path string, body []byte) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	return w.Code, w.Body.String()
}

type tally struct{ refused, first, accepted, lost, added, unstable int }

// TestStrictProvider repairs broken histories and sends them to a provider that checks strictly and shares no code with the
// rules: all that it refuses before, it accepts afterwards.
func TestStrictProvider(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	h := provider.New(provider.Config{Seed: 1})
	r := rand.New(rand.NewPCG(20, 26))
	byKind, byTarget, failures := map[string]*tally{}, map[string]*tally{}, 0
	skipped := 0
	play := func(t *testing.T, kind string, target wire.Target, path string, body []byte) {
		status, refusal := post(h, path, body)
		if status < 400 {
			return
		}
		res, err := repair.Repair(target, body, repair.Options{})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			return
		}
		after, why := post(h, path, res.Body)
		first, o := after < 400, repair.Options{}
		if !first { // the provider is stricter than the rules predict
			o.Lenient = true
			if res, err = repair.Repair(target, body, o); err != nil {
				t.Errorf("%s: %v", kind, err)
				return
			}
			after, why = post(h, path, res.Body)
		}
		again, err := repair.Repair(target, res.Body, o)
		if after >= 400 {
			if failures++; failures > 5 {
				t.Fail()
				return
			}
			t.Errorf("%s of %s: still refused: %s\nbefore: %s\n%s\n%s", kind, target.Variant, why, refusal, cut(body), cut(res.Body))
		}
		for _, n := range []*tally{at(byKind, kind), at(byTarget, string(target.Variant))} {
			n.refused++
			if first {
				n.first++
			}
			n.lost += len(res.Lost())
			for _, s := range res.Steps {
				if s.Rule == "missing_tool_reply" {
					n.added++
				}
			}
			if after < 400 {
				n.accepted++
			}
			if err != nil || len(again.Steps) > 0 || !bytes.Equal(again.Body, res.Body) {
				n.unstable++
				t.Errorf("%s of %s: a second repair changes something: %v", kind, target.Variant, err)
			}
		}
	}
	mutate := func(t *testing.T, d wire.Dialect, messages []byte) {
		for _, s := range strict {
			if s.target.Dialect != d {
				continue
			}
			// What the provider refuses before the mutation is repaired before: Mistral takes only ids of its own format.
			whole, err := repair.Repair(s.target, request(messages), repair.Options{Lenient: true})
			if err != nil {
				t.Errorf("before the mutation: %v", err)
				return
			}
			body := must.JSON[struct{ Messages json.RawMessage }](t, whole.Body)
			list, ok := rulestest.Atoms(d, body.Messages)
			if status, _ := post(h, s.path, whole.Body); status >= 400 || !ok {
				skipped++
				continue
			}
			sites := rulestest.Sites(list)
			if len(sites) == 0 {
				continue
			}
			site := sites[r.IntN(len(sites))]
			for _, m := range rulestest.Mutations {
				if broken, _, _, ok := m.Do(d, list, site); ok {
					messages, _ := rulestest.Render(d, broken)
					play(t, m.Name, s.target, s.path, request(messages))
				}
			}
		}
	}
	every := 10
	if *all {
		every = 1
	}
	t.Run("generated", func(t *testing.T) {
		for range 200 / every {
			mutate(t, wire.OpenAIChat, rulestest.Generate(wire.OpenAIChat, r))
			mutate(t, wire.Anthropic, rulestest.Generate(wire.Anthropic, r))
		}
	})
	t.Run("recorded", func(t *testing.T) {
		recordedtest.Lines(t, recordedtest.Conversations, func(i int, line []byte) {
			if i%every != 0 {
				return
			}
			var x struct {
				Format   string
				Status   int
				Messages json.RawMessage
			}
			must.Do(t, json.Unmarshal(line, &x), "decode conversation")
			switch {
			case x.Status >= 300:
			case x.Format == "openai.chat":
				mutate(t, wire.OpenAIChat, x.Messages)
			case x.Format == "anthropic.messages":
				mutate(t, wire.Anthropic, x.Messages)
			}
		})
	})
	t.Run("specification", func(t *testing.T) {
		for _, e := range rulestest.Examples(t) {
			for _, s := range strict {
				if s.target.Dialect == e.Target.Dialect && s.target.Variant == e.Target.Variant {
					play(t, "example of the specification", s.target, s.path, with(e.Violating, "model", `"m"`))
				}
			}
		}
	})
	for _, table := range []map[string]*tally{byKind, byTarget} {
		var names []string
		for name := range table {
			names = append(names, name)
		}
		slices.Sort(names)
		var b strings.Builder
		for _, name := range names {
			n := table[name]
			fmt.Fprintf(&b, "%-30s %6d refused, accepted after repair %6d, with lenient %6d; %6d parts lost %6d errors as replies %d changed again\n",
				name, n.refused, n.first, n.accepted, n.lost, n.added, n.unstable)
		}
		t.Log("\n" + b.String())
	}
	t.Logf("%d histories without a mutation that the provider refuses for other reasons were left out", skipped)
	if n := byTarget["openai"]; n == nil || n.refused == 0 {
		t.Error("nothing was refused")
	}
}

// cut returns the end of a body.
func cut(b []byte) []byte { return b[max(0, len(b)-1000):] }

func at(m map[string]*tally, key string) *tally {
	if m[key] == nil {
		m[key] = &tally{}
	}
	return m[key]
}

// request returns a request with messages.
func request(messages []byte) []byte {
	return slices.Concat([]byte(`{"model":"m","max_tokens":10,"messages":`), messages, []byte("}"))
}

// with sets a member of a body that lacks it.
func with(body []byte, key, value string) []byte {
	if bytes.Contains(body, []byte(`"`+key+`"`)) {
		return body
	}
	out, err := repair.Apply(body, []repair.Operation{{Op: "add", Path: "/" + key, Value: json.RawMessage(value)}})
	if err != nil {
		panic(err)
	}
	return out
}
