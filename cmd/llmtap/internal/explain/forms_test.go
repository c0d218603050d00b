package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// forms prints a JSON value as people find it: in files, in logs and in the output of tools.
var forms = map[string]func(v any) string{
	"JSON":       func(v any) string { return marshal(v) },
	"pretty":     func(v any) string { return indented(v) },
	"Python":     func(v any) string { return python(v) },
	"escaped":    func(v any) string { return strconv.Quote(marshal(v)) },
	"JavaScript": func(v any) string { return javaScript(v, "") },
	"YAML":       func(v any) string { return yaml(v, "") },
	"curl": func(v any) string {
		return "curl https://api.example.com/v1/chat/completions \\\n  -H 'Content-Type: application/json' \\\n  -H \"Authorization: Bearer $API_KEY\" \\\n  -d '" + indented(v) + "'"
	},
	"options of a client": func(v any) string {
		return "DEBUG:openai._base_client:Request options: {'method': 'post', 'url': '/chat/completions', 'files': None, 'idempotency_key': 'stainless-python-retry-1c1f', 'json_data': " + python(v) + "}\n" +
			"DEBUG:openai._base_client:Sending HTTP Request: POST https://api.openai.com/v1/chat/completions\n" +
			"DEBUG:httpcore.connection:connect_tcp.started host='api.openai.com' port=443 local_address=None timeout=5.0 socket_options=None"
	},
	"log of a client": func(v any) string {
		return "2026-03-01 10:00:00,123 - httpcore.http11 - DEBUG - receive_response_headers.complete return_value=(b'HTTP/1.1', 200, b'OK', [(b'x-ratelimit-limit-requests', b'500'), (b'retry-after-ms', b'0')])\n" +
			"2026-03-01 10:00:00,125 - httpx - INFO - HTTP Request: POST https://api.openai.com/v1/chat/completions \"HTTP/1.1 200 OK\"\n" +
			"2026-03-01 10:00:00,130 - app.llm - DEBUG - body: " + marshal(v)
	},
	"structured log": func(v any) string {
		return marshal(map[string]any{"level": "debug", "time": "2026-03-01T10:00:00Z", "logger": "llm", "msg": "body", "payload": v}) + "\n" +
			marshal(map[string]any{"level": "info", "time": "2026-03-01T10:00:01Z", "logger": "llm", "msg": "done", "duration_ms": 312})
	},
	"HAR": func(v any) string {
		return indented(map[string]any{"log": map[string]any{"version": "1.2", "entries": []any{map[string]any{
			"time": 312, "request": map[string]any{"method": "POST", "url": "https://api.example.com/v1/messages", "headers": []any{}, "postData": map[string]any{"mimeType": "application/json", "text": marshal(v)}},
			"response": map[string]any{"status": 200, "statusText": "OK", "content": map[string]any{"mimeType": "application/json", "text": marshal(v)}},
		}}}})
	},
}

// formNames contains the names of forms, sorted.
var formNames = slices.Sorted(maps.Keys(forms))

// decode decodes JSON without changing its numbers.
func decode(t testing.TB, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	must.Do(t, d.Decode(&v))
	return v
}

func marshal(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // decoded JSON
	return strings.TrimSpace(b.String())
}

func indented(v any) string {
	var b bytes.Buffer
	_ = json.Indent(&b, []byte(marshal(v)), "", "  ")
	return b.String()
}

// python returns the repr of v.
func python(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case string:
		return pythonString(v)
	case []any:
		var out []string
		for _, x := range v {
			out = append(out, python(x))
		}
		return "[" + strings.Join(out, ", ") + "]"
	case map[string]any:
		var out []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, pythonString(k)+": "+python(v[k]))
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	return fmt.Sprint(v)
}

// pythonString prefers single quotes, as Python does.
func pythonString(s string) string {
	mark := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = `"`
	}
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, mark, `\`+mark).Replace(s)
	return mark + s + mark
}

// javaScript returns v as console.log prints it.
func javaScript(v any, indent string) string {
	switch v := v.(type) {
	case string:
		return pythonString(v)
	case []any:
		var b strings.Builder
		for _, x := range v {
			b.WriteString("\n" + indent + "  " + javaScript(x, indent+"  ") + ",")
		}
		return "[" + strings.TrimSuffix(b.String(), ",") + "\n" + indent + "]"
	case map[string]any:
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b.WriteString("\n" + indent + "  " + k + ": " + javaScript(v[k], indent+"  ") + ",")
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "\n" + indent + "}"
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}

// yaml returns v in block style.
func yaml(v any, indent string) string {
	switch v := v.(type) {
	case nil:
		return " null\n"
	case string:
		if strings.Contains(v, "\n") {
			return " |-\n" + indent + "  " + strings.ReplaceAll(v, "\n", "\n"+indent+"  ") + "\n"
		}
		if v == "" || strings.ContainsAny(v[:1], "{}[]&*!|>%@`'\"-?#,") || strings.Contains(v, ": ") || strings.Contains(v, " #") || strings.HasSuffix(v, ":") {
			return " " + marshal(v) + "\n"
		}
		return " " + v + "\n"
	case []any:
		var b strings.Builder
		for _, x := range v {
			item := strings.TrimLeft(yaml(x, indent+"  "), " \n")
			b.WriteString(indent + "- " + item)
		}
		if len(v) == 0 {
			return " []\n"
		}
		return "\n" + b.String()
	case map[string]any:
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b.WriteString(indent + k + ":" + yaml(v[k], indent+"  "))
		}
		if len(v) == 0 {
			return " {}\n"
		}
		return "\n" + b.String()
	}
	return fmt.Sprintf(" %v\n", v)
}
