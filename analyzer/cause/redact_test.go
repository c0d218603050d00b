package cause

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestRedact(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		must.Equal(t, Redact([]byte(text)), want, "Redact(%q)", text)
	}
	f("", "")
	f("Incorrect API key provided: sk-proj-abc123DEF456ghi789.", "Incorrect API key provided: sk-***.")
	f("sk-proj-abc123DEF456ghi789 \xff", "sk-*** ?")
	// long texts are cut, at a rune and not inside a secret
	long := strings.Repeat("ä", 3000)
	if got := Redact([]byte(long)); len(got) > 4096 || !utf8.ValidString(got) || len(got) < 4000 {
		t.Errorf("long text: %d bytes", len(got))
	}
	half := strings.Repeat("x ", 2046) + "sk-abcdefgh1234567890"
	if got := Redact([]byte(half)); strings.Contains(got, "abc") || len(got) > 4096 {
		t.Errorf("the cut shows a secret: %q", got[len(got)-20:])
	}
}

func TestCluster(t *testing.T) {
	same := func(texts ...string) {
		t.Helper()
		for _, text := range texts[1:] {
			must.Equal(t, Cluster(texts[0]), Cluster(text), "cluster of %s", text)
		}
	}
	same(`{"error":{"message":"Widget 'alpha' of message 3 failed (request id: 20240606172214)"}}`,
		`{"error": {"message": "Widget 'beta gamma' of message 17 failed (request id: 99887766)"}}`)
	same("No frobnicator for call_abc", "No frobnicator for call_x9Yz")
	same("failed at 0a1b2c3d-0001-4aaa-8bbb-cccccccccccc", "failed at 11111111-2222-4333-9444-555555555555")
	same(`{"error":{"message":"Widget \"alpha\" is odd, saw \"a b\" first","param":"x"}}`, `{"error":{"message":"Widget \"beta\" is odd, saw \"c\" first","param":"x"}}`)
	same(`Error code: 400 - {'error': {'message': "No frob for 'get_weather' at 3", 'param': None}}`,
		`Error code: 400 - {'error': {'message': "No frob for 'send mail' at 14", 'param': None}}`)
	same("No frob for `get_weather` in \"the city\".", "No frob for `send` in \"a town\".")
	same(`{"message":"x: {\"message\":\"Widget \\\"alpha\\\" is odd\"}"}`, `{"message":"x: {\"message\":\"Widget \\\"beta\\\" is odd\"}"}`)

	apart := func(a, b string) {
		t.Helper()
		if a, b := Cluster(a), Cluster(b); a == b {
			t.Errorf("one cluster: %q", a)
		}
	}
	apart("Unexpected role 'user' after role 'tool'", "Unexpected role 'tool' after role 'user'")
	apart(`{"error":{"message":"No frob for \"get_weather\""}}`, `{"error":{"message":"No knob for \"get_weather\""}}`)
	apart(`{"error": {"message": "it fell", "param": "x"}}`, `{"error": {"message": "it broke", "param": "x"}}`)
	apart(`{'error': {'message': 'it fell', 'param': 'x'}}`, `{'error': {'message': 'it broke', 'param': 'x'}}`)
	apart("the turn is odd", "the turn is even")
	for _, text := range []string{"", "'", "`a", strings.Repeat("x", 10_000), "\xff\xfe", strings.Repeat("ü", 500)} {
		if got := Cluster(text); len(got) > maxCluster || !utf8.ValidString(got) {
			t.Errorf("Cluster(%.20q) has %d bytes: %q", text, len(got), got)
		}
	}
}

// FuzzTexts: no text causes a panic, an unknown cause or a result over its bound.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"", `\`, `\u`, `\u12`, `\\\\u0027`, "'a", `{"error":{"message":"x"}}`, "a@b.c", "Bearer ", "\xe2\x94", strings.Repeat(`\`, 5000)} {
		f.Add([]byte(s), 400)
	}
	f.Fuzz(func(t *testing.T, text []byte, status int) {
		if c := Classify(Input{Status: status, Text: text, Rules: []string{"orphan_tool_reply", "x"}}); Class(c.ID) == "" || c.Class == "" || c.Known == "" {
			t.Errorf("%+v", c)
		}
		if r := Redact(text); len(r) > maxText || !utf8.ValidString(r) {
			t.Errorf("Redact returns %d bytes", len(r))
		}
		if c := Cluster(string(text)); len(c) > maxCluster || !utf8.ValidString(c) {
			t.Errorf("Cluster returns %d bytes", len(c))
		}
	})
}
