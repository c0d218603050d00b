package proxy

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// prefix is the prefix of the headers addressed to the proxy.
const prefix = "X-Llmtap-"

// caller returns the caller described by the headers of a request.
func (p *Proxy) caller(r *http.Request) llmtap.Caller {
	get := func(name, fallback string) string {
		if v := label(r.Header.Get(prefix + name)); v != "" {
			return v
		}
		return fallback
	}
	user := get("User", "")
	if user != "" && p.cfg.Key != nil && !p.cfg.KeepUser {
		user = event.HashUser(p.cfg.Key, user)
	}
	return llmtap.Caller{
		Labels: event.Labels{
			Service: get("Service", p.cfg.Service), ServiceVersion: get("Service-Version", ""), Environment: get("Environment", p.cfg.Environment),
			Agent: get("Agent", p.cfg.Agent), Stage: get("Stage", ""), Conversation: get("Conversation", ""), Run: get("Run", ""), User: user,
		},
		Attrs:   attrs(r.Header),
		Address: hostname(r.RemoteAddr),
	}
}

// label decodes a value and truncates it to the maximum length in an event, so that headers cannot fill the queue.
func label(v string) string {
	if v == "" {
		return ""
	}
	if plain, err := url.PathUnescape(v); err == nil {
		v = plain
	}
	return strings.ToValidUTF8(v[:min(len(v), event.MaxHeaderValue)], "")
}

// attrs returns the attributes in h, at most event.MaxAttrs in key order; nil if there are none.
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

// removeProxyHeaders removes the headers addressed to the proxy.
func removeProxyHeaders(h http.Header) {
	for k := range h {
		if strings.HasPrefix(k, prefix) {
			delete(h, k)
		}
	}
}

// limitEncodings removes all encodings except gzip from Accept-Encoding, because the proxy must decode responses to
// shape them and to mask errors. A caller that does not accept gzip receives an unencoded response.
func limitEncodings(h http.Header) {
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
