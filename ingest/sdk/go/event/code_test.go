package event

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestCode(t *testing.T) {
	f := func(c Code, want string) {
		t.Helper()
		must.Equal(t, c.String(), want, "%+v", c)
		if got, ok := ParseCode(want); !ok || got.String() != want {
			t.Errorf("ParseCode(%q) = %+v, %v", want, got, ok)
		}
	}
	f(Code{"core/agent.py", 145, "Agent.run"}, "core/agent.py:145 Agent.run")
	f(Code{"my agent:2 a.py", 7, ""}, "my agent:2 a.py:7")
	f(Code{"my agent.js", 7, "Agent.get [a b:c]"}, "my agent.js:7 Agent.get_[a_b_c]")
	f(Code{strings.Repeat("目录/", 60) + "a.go", 12, strings.Repeat("函数", 60)}, "/"+strings.Repeat("目录/", 22)+"a.go:12 "+strings.Repeat("函数", 10)+"函")
	for _, s := range []string{"", ":1", "a.py", "a.py:", "a.py:0", "a.py:x", "a.py: f", "a.py:-1 f", "a.py:99999999999 f"} {
		if c, ok := ParseCode(s); ok || c != (Code{}) {
			t.Errorf("ParseCode(%q) = %+v, %v", s, c, ok)
		}
	}
	ev := Event{Kind: Request, Code: Code{strings.Repeat("目", 100), 4321, "f"}.String()}
	must.Contain(t, ev.Encode()[HeaderCode][0], ":4321", "the truncated place")
}
