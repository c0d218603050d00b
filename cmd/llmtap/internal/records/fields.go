package records

import (
	"encoding/base64"
	"encoding/json"

	"github.com/llmtap/llmtap/ingest/recorded"
)

// Fields is a JSON object whose members have any type.
type Fields map[string]json.RawMessage

// Has reports whether the object has the member and it is not null.
func (f Fields) Has(key string) bool { return len(f[key]) > 0 && string(f[key]) != "null" }

// Text returns a string member; "" for another type.
func (f Fields) Text(key string) string {
	var s string
	_ = json.Unmarshal(f[key], &s) // other JSON types have no text
	return s
}

// Number returns an integer member.
func (f Fields) Number(key string) (n int, ok bool) {
	err := json.Unmarshal(f[key], &n)
	return n, err == nil && f.Has(key)
}

// Label returns a string member, or the JSON of a member of another type, because an id may be a number.
func (f Fields) Label(key string) string {
	var t recorded.Text
	_ = json.Unmarshal(f[key], &t) // an absent member is ""
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

// Unquote returns the contents of a JSON string, and any other value unchanged.
func Unquote(raw json.RawMessage) []byte {
	var s string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
		return []byte(s)
	}
	return raw
}
