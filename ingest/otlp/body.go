package otlp

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// object is a JSON object of a body.
type object = dialect.Object

// url returns a URL from which dialect, variant and provider follow as from that of a recorded call. At an unknown host,
// a path segment names the variant; without a host, the URL is a path.
func (c *call) url() string {
	path := dialect.Of(c.dialect).Path(c.provider, url.PathEscape(c.model))
	host, _, _ := wire.SplitURL(c.base)
	if wire.ProviderOf(strings.ToLower(host)) == nil {
		path = segment(c.provider, c.dialect) + path
	}
	return c.base + path
}

// segment returns the path segment that names the provider's variant of a dialect.
func segment(provider string, d wire.Dialect) string {
	for i := range wire.Providers {
		if p := &wire.Providers[i]; p.Name == provider {
			for _, v := range p.Variants {
				if slices.Contains(d.Descriptor().Segments, v) {
					return "/" + string(v)
				}
			}
		}
	}
	return ""
}

// request returns a body with the data about the request, in the dialect of the call.
func (c *call) request() []byte {
	b, d := object{}, c.dialect.Descriptor()
	if d.Endpoints[0].Model == "" { // otherwise the path has the model, and says whether the answer is a stream
		if c.model != "" {
			b["model"] = c.model
		}
		if c.stream {
			b["stream"] = true
		}
	}
	if len(c.input) > 0 {
		b[d.Messages] = c.history(b)
	}
	return encode(b)
}

// history returns the messages of the request in the dialect of the call, and sets the system prompt of b where the
// dialect keeps it apart.
func (c *call) history(b object) (list []object) {
	d := dialect.Of(c.dialect)
	for i := range c.input {
		if m := &c.input[i]; d.System != nil && (m.Role == "system" || m.Role == "developer") {
			member, v := d.System(m.Said())
			b[member] = v
		} else {
			list = append(list, d.Message(m, false)...)
		}
	}
	return list
}

// response returns a body with the data about the answer, in the dialect of the call.
func (c *call) response() []byte {
	d, output := dialect.Of(c.dialect), c.output
	if len(output) == 0 && d.Items == "" {
		output = []message{{Role: "assistant"}}
	}
	r := dialect.Response{ID: c.responseID, Model: c.answeredBy, Finish: c.finish, Messages: d.Answered(output...)}
	if c.tokens {
		r.Tokens = &dialect.Tokens{Input: c.inputTokens, Cached: c.cachedTokens, Output: c.outputTokens}
	}
	return encode(d.Response(&r))
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: encode a body: " + err.Error()) // strings, numbers and decoded JSON only
	}
	return b
}
