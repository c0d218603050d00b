package shape

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// TestHostile shapes bodies that would take minutes if shaping were quadratic.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: one goroutine, and slow under the race detector")
	}
	const n = 1 << 21
	messages := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	arguments := func(text string) string {
		return `{"messages":[{"tool_calls":[{"function":{"arguments":` + strconv.Quote(text) + `}}]}]}`
	}
	nested := strings.Repeat(`{"b":0,"a":`, 1000) + "[" + strings.Repeat("0,", n/2) + "0]" + strings.Repeat("}", 1000)
	var wide, calls, parts strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&wide, `"%d":0,`, i)
	}
	for i := range 20_000 {
		fmt.Fprintf(&calls, `data: {"choices":[{"index":%d,"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"{}"}}]}}]}`+"\n\n", i%2, i, i)
	}
	parts.WriteString(`data: {"candidates":[{"content":{"parts":[`)
	for range 300_000 {
		parts.WriteString(`{"text":"abcdefgh"},`)
	}
	parts.WriteString("{}]}}]}\n\n")
	for name, body := range map[string]string{
		"deep":             messages(strings.Repeat("[", n) + strings.Repeat("]", n)),
		"deep and cut":     messages(strings.Repeat(`{"a":`, n)),
		"escapes":          messages(`"` + strings.Repeat(`\\\"`, n) + `"`),
		"backslashes":      messages(`"` + strings.Repeat(`\`, n) + `"`),
		"duplicate keys":   `{` + strings.Repeat(`"messages":[],`, n/16) + `"messages":[]}`,
		"deep arguments":   arguments(strings.Repeat(`[`, n) + strings.Repeat(`]`, n)),
		"nested arguments": arguments(nested),
		"wide arguments":   arguments("{" + wide.String() + `"":0}`),
		"line ends":        "data: x" + strings.Repeat("\r", n),
		"data lines":       strings.Repeat("data: {\n", n/8),
		"calls":            calls.String(),
		"parts":            parts.String(),
	} {
		s := New([]byte("key"))
		for _, d := range []wire.Dialect{wire.OpenAIChat, wire.Gemini} {
			for _, out := range []string{string(s.Request(d, []byte(body), noLimit)), string(s.Response(d, []byte(body), noLimit))} {
				if len(out) == 0 || strings.Contains(out, "abcdefgh") {
					t.Errorf("%s as %s: %.100s", name, d, out)
				}
			}
		}
	}
}
