package repair

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var rounds = flag.Int("rounds", 8_000, "random histories that are repaired")

// fragments are messages of each dialect, most of them with a fault.
var fragments = map[wire.Dialect][]string{
	wire.OpenAIChat: {
		`{"role":"user","content":"q"}`, `{"role":"system","content":"s"}`, `{"role":"developer","content":"d"}`, `{"role":"user","name":"a b","content":[]}`,
		`{"role":"assistant","content":"a"}`, `{"role":"assistant","content":""}`, `{"role":"assistant","content":null}`, `{"role":"assistant","content":"x","tool_calls":[]}`,
		`{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"assistant","content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c1","type":"function","function":{"name":"g h","arguments":{"a":1}}}]}`,
		`{"role":"assistant","tool_calls":[{"id":"c2","type":"function","function":{"name":"f","arguments":"{\"a\":"}},{"id":"","function":{"name":"f","arguments":""}},7,{"name":"f","args":{}}]}`,
		`{"role":"tool","tool_call_id":"c1","content":"r"}`, `{"role":"tool","tool_call_id":"c2","content":{"x":1}}`, `{"role":"tool","content":null}`, `{"role":"tool","tool_call_id":"c3"}`,
		`{"role":"tool","tool_call_id":"c1","content":[{"type":"image_url","image_url":{"url":"x"}},{"type":"input_audio","input_audio":{"data":""}}]}`,
		`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`, `{"role":"function","name":"f","content":"r"}`,
		`{"role":"user","content":"x","timestamp":1,"metadata":{}}`, `{"role":"assistant","content":"x","reasoning_content":"r","refusal":null}`, `{"role":"human","content":"x"}`, `{"content":"x"}`,
	},
	wire.OpenAIResponses: {
		`{"role":"user","content":"q"}`, `{"type":"message","role":"assistant","id":"x","content":[{"type":"output_text","text":"a"}]}`, `{"type":"message","role":"tool","content":"x"}`,
		`{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}`, `{"type":"function_call","id":"9","call_id":"c2","name":"f","arguments":{}}`,
		`{"type":"function_call_output","call_id":"c1","output":"r"}`, `{"type":"function_call_output","call_id":"c2"}`, `{"type":"function_call_output","output":7}`,
		`{"type":"reasoning","id":"rs_1","summary":[]}`, `{"type":"shell_call","call_id":"c4","action":{}}`, `{"type":"custom_tool_call","call_id":"c5","name":"g","input":"x"}`, `{"type":"message","role":"assistant"}`,
	},
	wire.Anthropic: {
		`{"role":"user","content":"q"}`, `{"role":"user","content":""}`, `{"role":"user","content":[{"type":"text","text":" "}]}`, `{"role":"assistant","content":"a"}`, `{"role":"assistant","content":[]}`,
		`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}`, `{"role":"assistant","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"c1","name":"f","input":"{}"},{"type":"tool_use","id":"c 2","name":"f","input":{}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}`, `{"role":"user","content":[{"type":"text","text":"t"},{"type":"tool_result","tool_use_id":"c1"},{"type":"tool_result","tool_use_id":"c 2","content":"r"}]}`,
		`{"role":"user","content":[{"type":"tool_result","content":"r"},{"type":"text","text":""}]}`, `{"role":"system","content":"s"}`, `{"role":"assistant","content":[{"type":"tool_use","id":"srvtoolu_1","name":"f","input":{}}]}`,
	},
	wire.Bedrock: {
		`{"role":"user","content":[{"text":"q"}]}`, `{"role":"user","content":[{"text":""},{"document":{"name":"d"}}]}`, `{"role":"assistant","content":[{"text":"a"}]}`, `{"role":"assistant","content":[]}`,
		`{"role":"assistant","content":[{"toolUse":{"toolUseId":"c1","name":"f","input":{}}},{"toolUse":{"toolUseId":"c1","name":"f","input":"x"}}]}`, `{"role":"assistant","content":[{"toolUse":{"toolUseId":"c/2","name":"f g","input":{}}}]}`,
		`{"role":"user","content":[{"toolResult":{"toolUseId":"c1","content":[{"text":"r"}]}}]}`, `{"role":"user","content":[{"text":"t"},{"toolResult":{"toolUseId":"c/2","content":[],"status":"error"}},{"toolResult":{"toolUseId":"c1"}}]}`,
	},
	wire.Gemini: {
		`{"role":"user","parts":[{"text":"q"}]}`, `{"role":"model","parts":[{"text":"a"}]}`, `{"role":"model","parts":[]}`, `{"role":"assistant","parts":[{"text":"a"}]}`, `{"role":"user","parts":[{"text":""}]}`, `{"role":"user"}`,
		`{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}},{"functionCall":{"name":"f","args":{}}}]}`, `{"role":"model","parts":[{"text":"t"},{"functionCall":{"id":"c1","name":"g h","args":"{}"}}]}`,
		`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}`, `{"role":"user","parts":[{"text":"t"},{"functionResponse":{"id":"c1","name":"g h","response":{}}},{"function_response":{"response":{}}}]}`,
	},
}

// TestRandomHistories repairs histories of random messages for all targets.
func TestRandomHistories(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	var targets []wire.Target
	for _, d := range wire.Dialects {
		for _, v := range d.Variants() {
			if fragments[d] != nil {
				targets = append(targets, wire.Target{Dialect: d, Variant: v})
			}
		}
	}
	r := rand.New(rand.NewPCG(7, 7))
	left := map[string]int{}
	for range *rounds {
		target := targets[r.IntN(len(targets))]
		all := fragments[target.Dialect]
		var list []string
		for range 1 + r.IntN(7) {
			list = append(list, all[r.IntN(len(all))])
		}
		tools := ""
		if r.IntN(2) == 0 {
			tools = `"tools":[{"type":"function","function":{"name":"f"}},{"name":"f","input_schema":{}}],`
		}
		body := []byte(`{"model":"` + []string{"m", "gemini-3-pro", "deepseek-v4-pro", "claude-opus-4-6"}[r.IntN(4)] + `",` + tools + `"` +
			target.Dialect.Descriptor().Messages + `":[` + strings.Join(list, ",") + `]}`)
		o := Options{Lenient: r.IntN(2) == 0}
		for range r.IntN(3) {
			o.Answers = append(o.Answers, []byte(all[r.IntN(len(all))]))
		}
		res, err := Repair(target, body, o)
		must.Do(t, err, target.Variant, string(body))
		for _, v := range res.Left {
			left[v.Rule.ID+" of "+string(target.Dialect)+": "+v.Detail]++
		}
		if !json.Valid(res.Body) || len(res.Steps) == 0 && !bytes.Equal(res.Body, body) {
			t.Fatalf("%s\n%s", body, res.Body)
		}
		again, err := Repair(target, res.Body, o)
		if err != nil || len(again.Steps) > 0 {
			t.Fatalf("%s: again: %v\n%s\n%+v\n%s\n%+v\n%s", target.Variant, err, body, res.Steps, res.Body, again.Steps, bytes.Join(o.Answers, []byte("\n")))
		}
		var f facts.Request
		must.Do(t, facts.ScanRequest(target.Dialect, res.Body, &f), string(res.Body))
	}
	t.Log(left)
}
