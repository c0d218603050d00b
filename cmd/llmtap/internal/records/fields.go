package records

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// Fields is a JSON object whose members have any type.
type Fields map[string]json.RawMessage

// Parse validates text and returns its members, which are slices of text. ok is false if text is not a JSON object.
func Parse(text []byte) (f Fields, ok bool) {
	if i := jsonscan.Space(text, 0); i >= len(text) || text[i] != '{' || !jsonscan.Valid(text) {
		return nil, false
	}
	f = make(Fields, 16)
	for key, v := range jsonscan.Members(text) {
		f[string(key)] = slices.Clip(v)
	}
	return f, true
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
