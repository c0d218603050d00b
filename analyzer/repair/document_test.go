package repair

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestApply(t *testing.T) {
	const doc = "{\n  \"a/b\": [1, {\"c\": \"x\"}],\n  \"~\": {}\n}"
	for _, c := range []struct{ op, from, path, value, want string }{
		{"remove", "", "/a~1b/0", "", "{\n  \"a/b\": [{\"c\": \"x\"}],\n  \"~\": {}\n}"},
		{"remove", "", "/a~1b/1", "", "{\n  \"a/b\": [1],\n  \"~\": {}\n}"},
		{"remove", "", "/a~1b", "", "{\n  \"~\": {}\n}"},
		{"remove", "", "/~0", "", "{\n  \"a/b\": [1, {\"c\": \"x\"}]\n}"},
		{"add", "", "/a~1b/0", "null", "{\n  \"a/b\": [null,1, {\"c\": \"x\"}],\n  \"~\": {}\n}"},
		{"add", "", "/a~1b/1", "null", "{\n  \"a/b\": [1, null, {\"c\": \"x\"}],\n  \"~\": {}\n}"},
		{"add", "", "/a~1b/2", "null", "{\n  \"a/b\": [1, {\"c\": \"x\"}, null],\n  \"~\": {}\n}"},
		{"add", "", "/~0/k", "true", "{\n  \"a/b\": [1, {\"c\": \"x\"}],\n  \"~\": {\"k\":true}\n}"},
		{"add", "", "/n", "true", "{\n  \"a/b\": [1, {\"c\": \"x\"}],\n  \"~\": {},\n  \"n\": true\n}"},
		{"add", "", "/a~1b/1/c", "2", "{\n  \"a/b\": [1, {\"c\": 2}],\n  \"~\": {}\n}"},
		{"replace", "", "/a~1b/1/c", "2", "{\n  \"a/b\": [1, {\"c\": 2}],\n  \"~\": {}\n}"},
		{"move", "/a~1b/1/c", "/~0/c", "", "{\n  \"a/b\": [1, {}],\n  \"~\": {\"c\":\"x\"}\n}"},
	} {
		must.Equal(t, string(must.Get(Apply([]byte(doc), []Operation{{Op: c.op, From: c.from, Path: c.path, Value: json.RawMessage(c.value)}}))(t)), c.want, "%s %s", c.op, c.path)
	}
	for _, o := range []Operation{
		{Op: "remove", Path: ""},
		{Op: "remove", Path: "/x"},
		{Op: "replace", Path: "/a~1b/2"},
		{Op: "add", Path: "/x/y"},
		{Op: "add", Path: "/a~1b/0/y"},
		{Op: "move", From: "/x", Path: "/y"},
		{Op: "test", Path: "/~0"},
	} {
		if got, err := Apply([]byte(doc), []Operation{o}); err == nil {
			t.Errorf("%+v: %s", o, got)
		}
	}
}

func TestArgumentsObject(t *testing.T) {
	for raw, want := range map[string]struct {
		object string
		lost   bool
	}{
		`"{\"a\": \"un"`:             {`{"a":"un"}`, true},
		`"{\"a\": 1, \"b"`:           {`{"a":1}`, true},
		`"{\"a\": [1, {\"b\":"`:      {`{"a":[1,{}]}`, true},
		`"{}{\"a\":1}"`:              {`{"a":1}`, false},
		`"{\"a\":1}{\"b\":2}"`:       {`{"a":1}`, true},
		`"\"{\\\"a\\\":1}\""`:        {`{"a":1}`, false},
		`{"a": 1}`:                   {`{"a":1}`, false},
		`""`:                         {`{}`, false},
		`null`:                       {`{}`, false},
		`"[]"`:                       {`{}`, false},
		`[1]`:                        {`{}`, true},
		`"{'a': 1}"`:                 {`{}`, true},
		`"{\"a\":\"b\\"`:             {`{"a":"b"}`, true},
		`"{\"a\":\"b\\\\\", \"c\":"`: {`{"a":"b\\"}`, true},
	} {
		object, lost := argumentsObject([]byte(raw))
		if string(object) != want.object || lost != want.lost {
			t.Errorf("%s: %s %v, want %s %v", raw, object, lost, want.object, want.lost)
		}
	}
}

// FuzzRepair repairs any request for any dialect: a result is JSON, a second repair changes nothing, and what is healthy keeps
// every byte.
func FuzzRepair(f *testing.F) {
	for i, body := range []string{
		`{"messages":[{"role":"user","content":"q"},{"role":"tool","tool_call_id":"c","content":"x"}]}`,
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{"}}]},{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c"}]}`,
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"tool_use","id":"c","name":"f","input":"{}"}]},{"role":"user","content":[{"type":"text","text":""},{"type":"tool_result","tool_use_id":"c"}]}]}`,
		`{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[]}},{"text":"x"}]},{"role":"user","content":[{"text":" "}]}]}`,
		`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":[]}},{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"g","response":{}}}]}]}`,
		`{"input":[{"type":"function_call","id":"x","call_id":"c","name":"f","arguments":{}},{"type":"reasoning","id":"rs_1"},{"type":"function_call_output","call_id":"d","output":1}]}`,
		`[{"role":"function","name":"f","content":"x"},{"role":"developer","name":"a b","content":[]}]`,
	} {
		f.Add(byte(i), false, []byte(body))
		f.Add(byte(7*i), true, []byte(body))
	}
	var targets []wire.Target
	for _, d := range wire.Dialects {
		for _, v := range d.Variants() {
			targets = append(targets, wire.Target{Dialect: d, Variant: v})
		}
	}
	f.Fuzz(func(t *testing.T, n byte, lenient bool, body []byte) {
		target := targets[int(n)%len(targets)]
		o := Options{Lenient: lenient, Answers: [][]byte{[]byte(`{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`)}}
		before := bytes.Clone(body)
		res, err := Repair(target, body, o)
		if !bytes.Equal(before, body) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		if len(res.Steps) == 0 && !bytes.Equal(res.Body, body) || !json.Valid(res.Body) {
			t.Fatalf("%s", res.Body)
		}
		patched, err := Apply(body, res.Patch())
		if err != nil || !bytes.Equal(patched, res.Body) {
			t.Fatalf("patch: %v\n%s\n%s", err, patched, res.Body)
		}
		again, err := Repair(target, res.Body, o)
		if err != nil || len(again.Steps) > 0 {
			t.Fatalf("again: %v\n%s\n%+v\n%s", err, body, again, res.Body)
		}
	})
}
