package agenttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A Dialect writes requests and answers as one provider's API does.
type Dialect struct {
	Name   string
	Wire   wire.Dialect
	HasIDs bool // calls have ids

	model, thinker string // models of requests without and with reasoning; no thinker, no reasoning
	url            func(r *request) string
	body           func(r *request) obj
	answer         func(r *request, m *Message, e ending) (contentType string, body []byte)
	callID         func(rnd *rand.Rand) string
	refusals       map[defect]string
	refusal        func(text string) obj
}

// request is a request in no dialect.
type request struct {
	model    string
	host     string // instead of the dialect's host
	system   string
	tools    []string
	messages []Message
	stream   bool
	thinks   bool
	force    string // tool that the model must call
	chatNull bool   // writes null for missing text
	id       string // of the answer
	previous string // id of the answer that the provider continues; "" if the request has the whole history
}

// ending is how an answer ends.
type ending uint8

const (
	whole     ending = iota
	lengthCut        // at the token limit
	streamCut        // without its last events
)

// defect is a class of defects with an error text of its own.
type defect uint8

const (
	other defect = iota
	orphan
	missing
	duplicate
)

type obj = map[string]any

// Dialects are the columns of the tables.
var Dialects = []*Dialect{&openAI, &deepSeek, &responses, &anthropic, &gemini, &geminiNoIDs, &bedrock}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// random returns n random characters of the alphabet.
func random(rnd *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rnd.IntN(len(alphabet))]
	}
	return string(b)
}

// pieces splits a text as streams do.
func pieces(s string, size int) []string {
	var list []string
	for len(s) > size {
		n := size
		for n < len(s) && s[n]&0xC0 == 0x80 { // not within a character
			n++
		}
		list, s = append(list, s[:n]), s[n:]
	}
	return append(list, s)
}

// text returns the arguments of c as a text.
func (c *Call) text() string {
	if c.Raw != "" {
		return c.Raw
	}
	return string(c.Args)
}

// value returns the arguments of c as JSON.
func (c *Call) value() json.RawMessage {
	if c.Raw != "" && json.Valid([]byte(c.Raw)) {
		return json.RawMessage(c.Raw)
	}
	return c.Args
}

// fill adds the additional members of a message.
func (m *Message) fill(o obj) obj {
	maps.Copy(o, m.Extra)
	return o
}

// sse writes server-sent events.
type sse struct{ strings.Builder }

func (b *sse) event(name string, data any) {
	if name != "" {
		fmt.Fprintf(b, "event: %s\n", name)
	}
	fmt.Fprintf(b, "data: %s\n\n", marshal(data))
}

// tools returns f of each declared tool.
func tools(r *request, f func(name string) obj) []obj {
	var list []obj
	for _, name := range r.tools {
		list = append(list, f(name))
	}
	return list
}

var schema = obj{"type": "object", "properties": obj{}}
