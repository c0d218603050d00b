package llmtap

import (
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/ingest/wire"
)

// hostSet contains the hosts of Config.Hosts. It is immutable.
type hostSet struct {
	exact    map[string]bool // "host" or "host:port"
	suffixes []string        // begin with "." or "-"
}

func newHostSet(configured []string) *hostSet {
	s := &hostSet{exact: make(map[string]bool)}
	for _, h := range configured {
		h = strings.ToLower(h)
		if strings.HasPrefix(h, ".") || strings.HasPrefix(h, "-") {
			s.suffixes = append(s.suffixes, h)
		} else if h != "" {
			s.exact[h] = true
		}
	}
	return s
}

// records reports whether u is at a known provider or a configured host.
func (s *hostSet) records(u *url.URL) bool {
	name := strings.ToLower(u.Hostname())
	if wire.KnownHost(name, u.Port()) || s.exact[name] || s.exact[strings.ToLower(u.Host)] {
		return true
	}
	for _, suffix := range s.suffixes {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}
