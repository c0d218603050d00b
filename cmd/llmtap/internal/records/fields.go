package records

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// Fields is a JSON object whose members have any type.
type Fields map[string]json.RawMessage

// Parse validates text and returns its members, which are slices of text. ok is false if text is not a JSON object.
func Parse(text []byte) (f Fields, ok bool) {
	i := jsonscan.Space(text, 0)
	if i >= len(text) || text[i] != '{' {
		return nil, false
	}
	f = make(Fields, 16)
	if i = jsonscan.Space(text, i+1); i < len(text) && text[i] == '}' {
		return f, jsonscan.Space(text, i+1) == len(text)
	}
	for {
		end, ok := jsonscan.ValueEnd(text, i)
		if !ok || text[i] != '"' {
			return nil, false
		}
		key := Unquote(text[i:end])
		if i = jsonscan.Space(text, end); i >= len(text) || text[i] != ':' {
			return nil, false
		}
		i = jsonscan.Space(text, i+1)
		if end, ok = jsonscan.ValueEnd(text, i); !ok {
			return nil, false
		}
		f[string(key)] = slices.Clip(text[i:end])
		if i = jsonscan.Space(text, end); i >= len(text) {
			return nil, false
		}
		switch text[i] {
		case ',':
			i = jsonscan.Space(text, i+1)
		case '}':
			return f, jsonscan.Space(text, i+1) == len(text)
		default:
			return nil, false
		}
	}
}

// Elements yields the offset and the text of each element of an array, and nothing for another value. It only looks for the
// ends of the elements; the array must have been validated for them to be valid.
func Elements(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		i := jsonscan.Space(array, 0)
		if i >= len(array) || array[i] != '[' {
			return
		}
		for more := true; more; more = i < len(array) && array[i] == ',' {
			start := jsonscan.Space(array, i+1)
			end := skip(array, start)
			if end == start || !yield(start, slices.Clip(array[start:end])) {
				return
			}
			i = jsonscan.Space(array, end)
		}
	}
}

// skip returns the index after the value that starts at i. If text is not valid JSON, any index from i to the end of text is
// possible.
func skip(text []byte, i int) int {
	if end := jsonscan.End(text, i); end >= i {
		return end
	}
	return len(text) // the value does not end
}

// Has reports whether the object has the member and it is not null.
func (f Fields) Has(key string) bool { return len(f[key]) > 0 && string(f[key]) != "null" }

// Text returns a string member; "" for another type.
func (f Fields) Text(key string) string { return text(f[key]) }

// text returns the contents of a JSON string; "" for another type.
func text(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		return string(Unquote(raw))
	}
	return ""
}

// Number returns an integer member.
func (f Fields) Number(key string) (n int, ok bool) {
	if !f.Has(key) {
		return 0, false
	}
	err := json.Unmarshal(f[key], &n)
	return n, err == nil
}

// Label returns a string member, or the JSON of a member of another type, because an id may be a number.
func (f Fields) Label(key string) string {
	if !f.Has(key) {
		return ""
	}
	var t recorded.Text
	_ = json.Unmarshal(f[key], &t) // every JSON value has a text
	return string(t)
}

// Object returns an object member; nil for another type.
func (f Fields) Object(key string) Fields {
	var o Fields
	_ = json.Unmarshal(f[key], &o) // other JSON types have no members
	return o
}

// Body returns a recorded body: JSON, a string, or base64 if the member KEY_encoding is "base64".
func (f Fields) Body(key string) []byte {
	b := Unquote(f[key])
	if f.Text(key+"_encoding") == "base64" {
		if raw, err := base64.StdEncoding.DecodeString(string(b)); err == nil {
			return raw
		}
	}
	return b
}

// Unquote returns the contents of a JSON string, and any other value unchanged. The result may be a slice of raw.
func Unquote(raw json.RawMessage) []byte {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return raw
	}
	text := raw[1 : len(raw)-1]
	if !utf8.Valid(text) {
		var s string
		if json.Unmarshal(raw, &s) != nil { // replaces bytes that are not UTF-8
			return raw
		}
		return []byte(s)
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return slices.Clip(text)
	}
	return jsonscan.AppendText(make([]byte, 0, len(text)), text)
}
