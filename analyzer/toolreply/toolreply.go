package toolreply

import (
	"iter"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// How certain it is that a reply reports an error.
const (
	Certain = "certain" // a field of the protocol says so
	Likely  = "likely"  // the text is that of a framework for a failed tool
)

// A Reply is what is known of the reply to a call.
type Reply struct {
	Error   string // Certain, Likely or "" if it reports no error
	Content []byte // the content as JSON, a part of the body; nil if there is none
	Hash    uint64 // its hash; 0 if there is none
}

// A Reader reads replies and reuses its memory.
type Reader struct{ text []byte }

// Read reads the reply b, a tool message, an item or a part of a message. failed reports that a fact of the reply is that it
// reports an error, see facts.Reply.IsError; size is its facts.Reply.ContentBytes, so that a long text is not read again. Of a
// shape, only fields of the protocol are known.
func (r *Reader) Read(b []byte, failed bool, size int) (out Reply) {
	content, gemini := []byte(nil), false
	for range 2 { // the part of a message and the reply in it; deeper ones would be read again at each level
		var part []byte
		for key, v := range sizedMembers(b, size) {
			switch string(key) {
			case "toolResult", "functionResponse", "function_response":
				if v[0] == '{' {
					part = v
				}
			case "content", "output":
				content = v
			case "response":
				content, gemini = v, true
			case "status": // error in Bedrock, failed in the items of OpenAI
				failed = failed || string(v) == `"error"` || string(v) == `"failed"`
			}
		}
		b = part
	}
	if len(content) > 0 {
		out.Content, out.Hash = content, max(xxh3.Hash(content), 1)
	}
	if !failed {
		out.Error = r.of(content, gemini)
	} else {
		out.Error = Certain
	}
	return out
}

// of returns how certain it is that the content reports an error.
func (r *Reader) of(content []byte, gemini bool) string {
	switch {
	case len(content) == 0:
	case content[0] == '"':
		return r.ofText(content[1 : len(content)-1])
	case content[0] == '[': // parts: the first text, or JSON in Bedrock
		for _, part := range jsonscan.Elements(content) {
			for key, v := range jsonscan.Members(part) {
				switch {
				case string(key) == "text" && v[0] == '"':
					return r.ofText(v[1 : len(v)-1])
				case string(key) == "json":
					return ofObject(v)
				}
			}
		}
	case content[0] == '{':
		e := ofObject(content)
		if e == Likely && gemini {
			return Certain // Gemini's documentation gives the member error this meaning
		}
		for key, v := range jsonscan.Members(content) {
			if e == "" && v[0] == '"' && (string(key) == "result" || string(key) == "output" || string(key) == "content") {
				e = r.ofText(v[1 : len(v)-1])
			}
		}
		return e
	}
	return ""
}

// maxObject is the maximum size of a text that may be a JSON object with an error, in bytes.
const maxObject = 8 << 10

// ofText returns how certain it is that a text reports an error. raw is the text as JSON, without the quotes.
func (r *Reader) ofText(raw []byte) string {
	raw = trimStart(raw)
	if len(raw) == 0 {
		return ""
	}
	if raw[0] == '{' {
		if len(raw) > maxObject {
			return ""
		}
		r.text = jsonscan.AppendText(r.text[:0], raw)
		return ofObject(r.text)
	}
	return ofFramework(raw)
}

// ofFramework returns Likely if a text is that of a framework for a failed tool. raw is the text as JSON, without the quotes.
func ofFramework(raw []byte) string {
	raw = trimStart(raw)
	if len(raw) == 0 {
		return ""
	}
	for i := range starts {
		if s := starts[i].text; s[0] == raw[0] && len(raw) >= len(s) && string(raw[:len(s)]) == s {
			return Likely
		}
	}
	raw = trimEnd(raw)
	for i := range ends {
		if s := ends[i].text; len(raw) >= len(s) && string(raw[len(raw)-len(s):]) == s {
			return Likely
		}
	}
	return ""
}

// trimStart removes spaces and line ends from the start of a text in JSON.
func trimStart(raw []byte) []byte {
	for {
		switch {
		case len(raw) > 0 && raw[0] == ' ':
			raw = raw[1:]
		case len(raw) > 1 && raw[0] == '\\' && (raw[1] == 'n' || raw[1] == 'r' || raw[1] == 't'):
			raw = raw[2:]
		default:
			return raw
		}
	}
}

// trimEnd removes spaces and line ends from the end of a text in JSON.
func trimEnd(raw []byte) []byte {
	for {
		switch n := len(raw); {
		case n > 0 && raw[n-1] == ' ':
			raw = raw[:n-1]
		case n > 1 && raw[n-2] == '\\' && raw[n-1] == 'n':
			raw = raw[:n-2]
		default:
			return raw
		}
	}
}

// maxErrorMembers bounds the members of an object that consists of an error. An object with more is a record that has an error
// among other data, such as a failed payment that the tool was asked for.
const maxErrorMembers = 4

// ofObject returns how certain it is that a JSON object reports an error.
func ofObject(b []byte) (e string) {
	n := 0
	for key, v := range jsonscan.Members(b) {
		n++
		switch string(key) {
		case "isError": // a result of MCP
			if string(v) == "true" {
				return Certain
			}
		case "error":
			if v[0] == '"' && len(v) > 2 || v[0] == '{' && len(v) > 2 || string(v) == "true" {
				e = Likely
			}
		case "text": // of a part of MCP, as the OpenAI Agents SDK sends it
			if v[0] == '"' && e == "" {
				e = ofFramework(v[1 : len(v)-1])
			}
		case "success", "ok":
			if string(v) == "true" {
				return ""
			}
		}
	}
	if n > maxErrorMembers {
		return ""
	}
	return e
}

// sizedMembers returns the members of a JSON object whose content, if it is a string, probably has size bytes.
func sizedMembers(b []byte, size int) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, v []byte) bool) {
		if len(b) == 0 || b[0] != '{' {
			return
		}
		for i := jsonscan.Space(b, 1); i < len(b) && b[i] == '"'; {
			end := jsonscan.StringEnd(b, i+1)
			if end < 0 {
				return
			}
			key := b[i+1 : end]
			if i = jsonscan.Space(b, end+1); i >= len(b) || b[i] != ':' {
				return
			}
			i = jsonscan.Space(b, i+1)
			n := i + size + 2
			if size < 0 || size > len(b) || n >= len(b) || b[i] != '"' || b[n-1] != '"' || b[n] != ',' && b[n] != '}' || string(key) != "content" && string(key) != "output" {
				n = jsonscan.End(b, i)
			}
			if n <= i || !yield(key, b[i:n]) {
				return
			}
			if i = jsonscan.Space(b, n); i >= len(b) || b[i] != ',' {
				return
			}
			i = jsonscan.Space(b, i+1)
		}
	}
}
