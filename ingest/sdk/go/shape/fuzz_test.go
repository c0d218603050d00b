package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

func seeds(f *testing.F) {
	f.Helper()
	files := must.Get(filepath.Glob("testdata/*.in"))(f)
	for _, file := range files {
		body := must.Get(os.ReadFile(file))(f)
		name, what, _ := strings.Cut(filepath.Base(file), ".")
		d := byte(slices.Index(dialects, wire.Dialect(name)))
		if d == byte(slices.Index(dialects, wire.Bedrock)) && strings.HasPrefix(what, "stream") {
			body = []byte(frameLines(f, string(body)))
		}
		f.Add(d, body)
	}
	f.Add(byte(0), []byte(`{"messages":[{"tool_calls":[{"function":{"arguments":"{\"a\":1}{\"b\":\"\\u00e9\\\\\"}"}}]}]}`))
	f.Add(byte(5), []byte(`{"":[{"":[{"":{"":"{\"\":\"\""}}]}]}`))
	f.Add(byte(29), []byte(`{"thinking":{"secr00":{}},"":[{"":[{"":{"":"{\"secr"}}]}]}`))
	f.Add(byte(0), []byte("data: {\"choices\":[\ndata: {\"index\":1,\"delta\":{\"content\":\"abcdefgh\"}}]}\r\n\r\nid: abcdefgh\n: x\ndata: nonsense\n\ndata: {\"cut"))
	f.Add(byte(0), []byte("{\"message\":{\"content\":\"abcdefgh\"},\"done\":false}\n{\"message\":{\"content\":\"ijklmnop\"},\"done\":true}\n"))
	f.Add(byte(3), []byte(`[{"candidates":[{"content":{"parts":[{"text":"abcdefgh"}]}}]},{"candidates":[{"content":{"parts":[{"text":"x"},{"thought":true,"text":"y"}]}}]}]`))
}

// FuzzRequest checks that nothing panics, that no free text is in the shape, that the shape of JSON is JSON of the same
// structure, and that shaping a shape changes hashes only.
func FuzzRequest(f *testing.F) {
	seeds(f)
	s := New([]byte("key"))
	f.Fuzz(func(t *testing.T, d byte, body []byte) {
		dialect := dialects[int(d)%len(dialects)]
		once := bytes.Clone(s.Request(dialect, body, noLimit))
		if bytes.HasPrefix(once, []byte("~")) {
			return
		}
		check(t, tables()[dialect].request, body, once)
		twice := s.Request(dialect, once, noLimit)
		must.Equal(t, skeleton(decoded(t, once)), skeleton(decoded(t, twice)), "skeletons of %s\nshaped   %s\nand then %s", body, once, twice)
	})
}

// FuzzResponse is FuzzRequest for answers; streams need not be JSON.
func FuzzResponse(f *testing.F) {
	seeds(f)
	s := New([]byte("key"))
	f.Fuzz(func(t *testing.T, d byte, body []byte) {
		dialect := dialects[int(d)%len(dialects)]
		once := bytes.Clone(s.Response(dialect, body, noLimit))
		if json.Valid(body) && json.Valid(once) && bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
			check(t, tables()[dialect].response, body, once)
		}
		if sse.IsStream(body) && !looksLikeJSON(body) {
			checkLines(t, tables()[dialect].event, body, once)
		}
		s.Response(dialect, once, noLimit)
		s.Response(dialect, body, len(body))
	})
}

// decoded decodes JSON except for details that only encoding/json rejects.
func decoded(t *testing.T, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil // control characters in a kept value
	}
	return v
}

// members returns the number of members of all objects in v.
func members(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += members(e)
		}
	case map[string]any:
		for _, e := range v {
			n += 1 + members(e)
		}
	}
	return n
}

// keys returns the number of keys in JSON, including duplicates: a colon outside strings follows each.
func keys(body []byte) int {
	return bytes.Count(quoted.ReplaceAll(body, nil), []byte(":"))
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

func check(t *testing.T, root *node, body, shaped []byte) {
	t.Helper()
	v := decoded(t, body)
	if v == nil {
		return
	}
	w := decoded(t, shaped)
	if w == nil {
		t.Fatalf("the shape of %s is not JSON: %s", body, shaped)
	}
	must.Equal(t, kindsOf(v), kindsOf(w), "kinds of %s and of its shape %s", body, shaped)
	if members(v) != keys(body) {
		return // v has only the last of duplicate members; the texts of the others may be kept
	}
	var free, kept []string
	collect(root, v, &free, &kept)
	checkFree(t, free, kept, body, shaped)
}

// checkFree searches a shape for free texts. Short ones may be in it by chance, and so may a text such as {"":"": of a text
// with JSON's structural characters it searches for the parts between them.
func checkFree(t *testing.T, free, kept []string, body, shape []byte) {
	t.Helper()
	stays, text := strings.Join(kept, "\n"), shaped.ReplaceAllString(string(shape), "")
	for _, s := range free {
		parts := []string{s}
		if strings.ContainsAny(s, `{}[]":\`) {
			parts = strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(`{}[]":,\`, r) })
		}
		for _, part := range parts {
			if len(part) >= 6 && strings.Contains(text, part) && !strings.Contains(stays, part) {
				t.Errorf("%q leaks from %s: %s", s, body, shape)
			}
		}
	}
}

// checkLines is checkFree for server-sent events.
func checkLines(t *testing.T, root *node, body, shape []byte) {
	t.Helper()
	var free, kept []string
	for line := range strings.Lines(strings.ReplaceAll(string(body), "\r", "\n")) {
		data, ok := strings.CutPrefix(line, "data:")
		var v any
		if ok && json.Unmarshal([]byte(data), &v) == nil {
			collect(root, v, &free, &kept)
		} else {
			kept = append(kept, line)
		}
	}
	checkFree(t, free, kept, body, shape)
}

// collect walks a body by the table, independently of Shaper, and returns the free and the kept texts.
func collect(n *node, v any, free, kept *[]string) {
	switch v := v.(type) {
	case string:
		if n != nil && (n.keep || n.below || n.text) {
			*kept = append(*kept, v)
		} else {
			*free = append(*free, v)
		}
	case []any:
		for _, e := range v {
			switch {
			case n != nil && n.below:
				collect(n, e, free, kept)
			case n != nil && !n.arguments:
				collect(n.elem, e, free, kept)
			default:
				collect(nil, e, free, kept)
			}
		}
	case map[string]any:
		for key, e := range v {
			switch {
			case n != nil && n.below:
				*kept = append(*kept, key)
				collect(n, e, free, kept)
			case n != nil && n.kids != nil && !n.arguments:
				if len(key) <= maxKey {
					*kept = append(*kept, key)
				}
				collect(n.kids[key], e, free, kept)
			default:
				*free = append(*free, key)
				collect(nil, e, free, kept)
			}
		}
	}
}

// skeleton returns the structure of a value without the order of members and duplicates.
func skeleton(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "s"
	case json.Number:
		return "n"
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(skeleton(e) + ",")
		}
		return "[" + b.String() + "]"
	case map[string]any:
		var members []string
		for _, e := range v {
			members = append(members, skeleton(e))
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ",") + "}"
	}
	return fmt.Sprint(v)
}

// kindsOf is skeleton without containers in arguments that exceed maxDepth.
func kindsOf(v any) string {
	s := skeleton(v)
	if strings.Count(s, "[")+strings.Count(s, "{") > maxDepth {
		return ""
	}
	return s
}
