package proxy

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/ingest/event"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
)

// prefix of the headers that are for the proxy and not for the provider.
const prefix = "X-Llmtap-"

// caller reads the labels of a request.
func (p *Proxy) caller(r *http.Request) llmtap.Caller {
	get := func(name, otherwise string) string {
		if v := label(r.Header.Get(prefix + name)); v != "" {
			return v
		}
		return otherwise
	}
	return llmtap.Caller{
		Labels: event.Labels{
			Service: get("Service", p.cfg.Service), ServiceVersion: get("Service-Version", ""), Environment: get("Environment", p.cfg.Environment),
			Agent: get("Agent", p.cfg.Agent), Stage: get("Stage", ""), Conversation: get("Conversation", ""), Run: get("Run", ""), User: get("User", ""),
		},
		Attrs:   attrs(r.Header),
		Address: hostname(r.RemoteAddr),
	}
}

// label decodes a value and cuts it to what an event can hold, so that headers cannot fill the queue.
func label(v string) string {
	if v == "" {
		return ""
	}
	if plain, err := url.PathUnescape(v); err == nil {
		v = plain
	}
	return strings.ToValidUTF8(v[:min(len(v), event.MaxHeaderValue)], "")
}

// attrs reads the attributes, the first event.MaxAttrs by key; nil if there is none.
func attrs(h http.Header) map[string]string {
	var m map[string]string
	for k, v := range h {
		key, ok := strings.CutPrefix(k, prefix+"Attr-")
		if !ok || len(v) == 0 {
			continue
		}
		if key = strings.ToLower(key); event.ValidAttrKey(key) {
			if m == nil {
				m = make(map[string]string)
			}
			m[key] = label(v[0])
		}
	}
	if len(m) > event.MaxAttrs {
		for _, k := range slices.Sorted(maps.Keys(m))[event.MaxAttrs:] {
			delete(m, k)
		}
	}
	return m
}

// strip removes what is for the proxy alone.
func strip(h http.Header) {
	for k := range h {
		if strings.HasPrefix(k, prefix) {
			delete(h, k)
		}
	}
}

// keepReadable takes the encodings out of Accept-Encoding that the hook cannot read: it shapes answers and masks errors. A
// caller that accepts no other gets an answer that is not encoded.
func keepReadable(h http.Header) {
	values, ok := h["Accept-Encoding"]
	if !ok {
		return
	}
	var keep []string
	all := true
	for _, v := range values {
		for e := range strings.SplitSeq(v, ",") {
			e = strings.TrimSpace(e)
			coding, _, _ := strings.Cut(e, ";")
			switch strings.ToLower(strings.TrimSpace(coding)) {
			case "":
				continue
			case "gzip", "identity":
				keep = append(keep, e)
				continue
			}
			all = false
		}
	}
	switch {
	case all:
	case len(keep) == 0:
		h["Accept-Encoding"] = []string{"identity"}
	default:
		h["Accept-Encoding"] = []string{strings.Join(keep, ", ")}
	}
}
