package analyzer

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	maxEndpoints = 256 // a full map is cleared
	maxURL       = 512 // bytes of a URL that is remembered
)

// An endpoint is what a URL says about the requests to it.
type endpoint struct {
	host, path string
	target     wire.Target
	streams    bool // see wire.Streams
	batch      bool // see wire.CreatesBatch
}

// endpoints remembers URLs without their queries: a fleet calls few.
type endpoints map[string]*endpoint

// of returns the endpoint of a URL. It shares no memory with url.
func (m endpoints) of(url string) *endpoint {
	url, _, _ = strings.Cut(url, "?")
	if e := m[url]; e != nil {
		return e
	}
	url = strings.Clone(url)
	host, _, path := wire.SplitURL(url)
	e := &endpoint{host, path, facts.Detect(url, "", nil), wire.Streams(path), wire.CreatesBatch(path)}
	if len(url) <= maxURL {
		if len(m) >= maxEndpoints {
			clear(m)
		}
		m[url] = e
	}
	return e
}
