package reduce

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// newCase returns a case of requests and, separated by an arrow, the messages of their answers.
func newCase(t *testing.T, target wire.Target, steps ...string) *Case {
	t.Helper()
	c := &Case{Target: target}
	for i, step := range steps {
		request, answer, _ := strings.Cut(step, " -> ")
		s := Step{Exchange: string(rune('a' + i))}
		s.Request = must.Get(Decode[map[string]any]([]byte(request)))(t)
		if answer != "" {
			s.Answer = must.Get(Decode[[]any]([]byte(answer)))(t)
		}
		c.Steps = append(c.Steps, s)
	}
	return c
}

// reduced reduces c to the first fault of a rule and checks that the fault stays.
func reduced(t *testing.T, c *Case, rule string) (*Case, Fault) {
	t.Helper()
	found, _, err := c.Faults()
	i := slices.IndexFunc(found, func(f Fault) bool { return f.Rule == rule })
	if err != nil || i < 0 {
		t.Fatalf("no %s in %v: %v", rule, found, err)
	}
	before := c.String()
	short := Reduce(c, &found[i])
	if c.String() != before {
		t.Fatal("the case was changed")
	}
	left, _, err := short.Faults()
	if err != nil || !slices.ContainsFunc(left, func(f Fault) bool { return f.same(&found[i]) }) {
		t.Fatalf("the fault is gone: %v, %v\n%s", left, err, short)
	}
	again := Reduce(c, &found[i])
	must.Equal(t, again.String(), short.String(), "not deterministic:\n%s", short)
	return short, found[i]
}

// String returns requests and answers, one exchange per line.
func (c *Case) String() string {
	var b strings.Builder
	for _, s := range c.Steps {
		b.Write(Encode(s.Request))
		if len(s.Answer) > 0 {
			b.WriteString(" -> ")
			b.Write(Encode(s.Answer))
		}
		b.WriteString("\n")
	}
	return b.String()
}

const (
	user   = `{"role":"user","content":"Read the configuration of the server, then change its port."}`
	call   = `{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"config.py\"}"}}`
	call2  = `{"id":"call_2","type":"function","function":{"name":"list","arguments":"{}"}}`
	reply  = `{"role":"tool","tool_call_id":"call_1","content":"PORT = 80 and a long text that nobody has to read"}`
	reply2 = `{"role":"tool","tool_call_id":"call_2","content":"config.py"}`
	said   = `{"role":"assistant","content":null,"refusal":null,"tool_calls":[` + call + `,` + call2 + `]}`
	tools  = `"temperature":0.2,"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"list"}}]`
)

func chat(messages string) string {
	return `{"model":"deepseek-chat",` + tools + `,"messages":[{"role":"system","content":"You plan."},` + messages + `]}`
}

var deepSeek = wire.Target{Dialect: wire.OpenAIChat, Variant: wire.DeepSeek}

// A conversation is reduced to the exchange whose answer the fault concerns.
func TestReduce(t *testing.T) {
	f := func(name, rule, root, want string, target wire.Target, steps ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			c, fault := reduced(t, newCase(t, target, steps...), rule)
			must.Equal(t, fault.RootCause, root, "root cause")
			must.Agree(t, cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(c.String())))
		})
	}
	earlier := []string{
		chat(user) + ` -> [{"role":"assistant","content":"Which server?"}]`,
		chat(user+`,{"role":"assistant","content":"Which server?"},{"role":"user","content":"A"}`) + " -> [" + said + "]",
	}
	history := user + `,{"role":"assistant","content":"Which server?"},{"role":"user","content":"A"}`
	f("calls dropped on save", "orphan_tool_reply", "tool_calls_dropped_on_save", `
{"messages":[]} -> [{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\":\"config.py\"}","name":"read"},"id":"call_1","type":"function"}]}]
{"messages":[{"content":"","role":"assistant"},{"content":"PORT = 80 and a long text that …","role":"tool","tool_call_id":"call_1"}]}`,
		deepSeek, append(earlier, chat(history+`,{"role":"assistant","content":""},`+reply+","+reply2))...)
	// The calls stay: the agent may answer only some of several.
	f("a call without a reply", "missing_tool_reply", "tool_skipped_or_interrupted", `
{"messages":[]} -> [{"content":null,"role":"assistant","tool_calls":[`+decoded(call)+","+decoded(call2)+`]}]
{"messages":[{"content":null,"role":"assistant","tool_calls":[`+decoded(call)+","+decoded(call2)+`]},`+decoded(reply2)+`,{"content":"Well?","role":"user"}]}`,
		deepSeek, append(earlier, chat(history+","+said+","+reply2+`,{"role":"user","content":"Well?"}`))...)
	// The messages stay: the agent may keep the last ones.
	f("history cut", "orphan_tool_reply", "history_truncated_mid_pair", `
{"messages":[{"content":"You plan.","role":"system"},`+shortUser+`]} -> [`+strings.Replace(decoded(said), `"refusal":null,`, "", 1)+`]
{"messages":[{"content":"You plan.","role":"system"},`+decoded(reply2)+`]}`,
		deepSeek, chat(user)+" -> ["+said+"]", chat(reply2))
	// A duplicate reply needs only its call.
	f("anthropic", "duplicate_tool_reply", "duplicate_reply", `
{"messages":[]} -> [{"content":[{"id":"t1","input":{},"name":"read","type":"tool_use"}],"role":"assistant"}]
{"messages":[{"content":[{"id":"t1","input":{},"name":"read","type":"tool_use"}],"role":"assistant"},{"content":[{"content":"80","tool_use_id":"t1","type":"tool_result"},{"content":"81","tool_use_id":"t1","type":"tool_result"}],"role":"user"}]}`,
		wire.Target{Dialect: wire.Anthropic, Variant: wire.AnthropicAPI},
		`{"max_tokens":9,"messages":[`+user+`]} -> [`+claude+`]`,
		`{"max_tokens":9,"messages":[`+user+`,`+claude+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"80"},`+
			`{"type":"tool_result","tool_use_id":"t2","content":"a"},{"type":"tool_result","tool_use_id":"t1","content":"81"}]}]}`)
	f("gemini", "orphan_tool_reply", "tool_calls_dropped_on_save", `
{"contents":[{"parts":[{"text":"Which port?"}],"role":"user"}]} -> [{"parts":[{"functionCall":{"args":{"path":"a"},"name":"read"}}],"role":"model"}]
{"contents":[{"parts":[{"text":"Which port?"}],"role":"user"},{"parts":[{"functionResponse":{"name":"read","response":{"port":80}}}],"role":"user"}]}`,
		wire.Target{Dialect: wire.Gemini, Variant: wire.GeminiAPI},
		`{"contents":[{"role":"user","parts":[{"text":"Which port?"}]}]} -> [`+gemini+`]`,
		`{"contents":[{"role":"user","parts":[{"text":"Which port?"}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"port":80}}}]}]}`)
	f("responses", "unknown_tool_call_id", "tool_calls_dropped_on_save", `
{"input":[]} -> [`+decoded(item)+","+decoded(strings.ReplaceAll(item, "_1", "_2"))+`]
{"input":[`+decoded(strings.ReplaceAll(item, "_1", "_2"))+`,{"call_id":"call_1","output":"80","type":"function_call_output"}]}`,
		wire.Target{Dialect: wire.OpenAIResponses, Variant: wire.OpenAI},
		`{"model":"m","input":[`+user+`]} -> [`+item+","+strings.ReplaceAll(item, "_1", "_2")+`]`,
		`{"model":"m","input":[`+user+","+strings.ReplaceAll(item, "_1", "_2")+`,{"type":"function_call_output","call_id":"call_2","output":"80"},{"type":"function_call_output","call_id":"call_1","output":"80"}]}`)
	f("bedrock", "missing_tool_reply", "tool_skipped_or_interrupted", `
{"messages":[]} -> [`+decoded(converse)+`]
{"messages":[`+decoded(converse)+`,{"content":[{"text":"Well?"}],"role":"user"}]}`, wire.Target{Dialect: wire.Bedrock, Variant: wire.BedrockAPI},
		`{"messages":[{"role":"user","content":[{"text":"Which port?"}]}]} -> [`+converse+`]`,
		`{"messages":[{"role":"user","content":[{"text":"Which port?"}]},`+converse+`,{"role":"user","content":[{"text":"Well?"}]}]}`)
}

const (
	shortUser = `{"content":"Read the configuration of the s…","role":"user"}`
	claude    = `{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"read","input":{}},{"type":"tool_use","id":"t2","name":"list","input":{}}]}`
	item      = `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{}"}`
	converse  = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"read","input":{"path":"a"}}}]}`
	gemini    = `{"role":"model","parts":[{"text":"I look."},{"functionCall":{"name":"read","args":{"path":"a"}}}]}`
)

// decoded returns JSON as Encode does.
func decoded(text string) string {
	v, err := Decode[any]([]byte(text))
	if err != nil {
		panic(err)
	}
	return string(Encode(v))
}

// The violating examples of the specification are reduced to a few messages.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("../../../../../shared/spec/examples.json")
	if err != nil {
		t.Skip("SKIPPED: requires the specification: ", err)
	}
	var examples []struct {
		Rule, Dialect string
		Violating     json.RawMessage
	}
	must.Do(t, json.Unmarshal(text, &examples))
	n := 0
	for _, e := range examples {
		d := wire.Dialect(e.Dialect)
		if len(d.Variants()) == 0 {
			continue
		}
		for _, v := range d.Variants() {
			c := newCase(t, wire.Target{Dialect: d, Variant: v}, string(e.Violating))
			found, _, err := c.Faults()
			if err != nil || !slices.ContainsFunc(found, func(f Fault) bool { return f.Rule == e.Rule }) {
				continue
			}
			n++
			t.Run(e.Rule+"/"+string(v), func(t *testing.T) {
				short, _ := reduced(t, c, e.Rule)
				if before, after := len(c.history(&c.Steps[0])), len(short.history(&short.Steps[0])); after > min(before, 4) {
					t.Errorf("%d of %d messages are left: %s", after, before, short)
				}
				t.Logf("%d of %d bytes", len(short.String()), len(c.String()))
			})
		}
	}
	if n < 20 {
		t.Errorf("only %d examples", n)
	}
}
