package llmtap

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A hostPort is a host in lower case, without brackets, and a port; port "" stands for any port.
type hostPort struct{ name, port string }

// A hostSet contains the hosts of Config.Hosts and LLMTAP_HOSTS. It is immutable.
type hostSet struct {
	exact    map[hostPort]bool
	suffixes []hostPort // names begin with "." or "-"
}

// newHostSet parses hosts as documented for Config.Hosts. Empty entries are ignored.
func newHostSet(hosts []string) (*hostSet, error) {
	s := &hostSet{exact: make(map[hostPort]bool)}
	for _, h := range hosts {
		if strings.TrimSpace(h) == "" {
			continue
		}
		p, err := parseHost(h)
		switch {
		case err != nil:
			return nil, err
		case p.name[0] == '.' || p.name[0] == '-':
			s.suffixes = append(s.suffixes, p)
		default:
			s.exact[p] = true
		}
	}
	return s, nil
}

// parseHost parses a host with an optional port. It accepts URLs, whose scheme and path it ignores.
func parseHost(s string) (hostPort, error) {
	h := strings.ToLower(strings.TrimSpace(s))
	if strings.Contains(h, "/") {
		name, port, _ := wire.SplitURL(h)
		h = name
		if port != "" {
			h += ":" + port
		}
	}
	if strings.HasPrefix(h, "*.") || strings.HasPrefix(h, "*-") {
		h = h[1:]
	}
	p := hostPort{name: h}
	if n := strings.LastIndexByte(h, ':'); n >= 0 && (strings.Count(h, ":") == 1 || h[n-1] == ']') {
		p = hostPort{h[:n], h[n+1:]}
		if p.port == "" || strings.Trim(p.port, "0123456789") != "" {
			return p, fmt.Errorf("%q: invalid port", s)
		}
	}
	p.name = strings.TrimSuffix(strings.TrimPrefix(p.name, "["), "]")
	if strings.Trim(p.name, ".-") == "" || strings.ContainsAny(p.name, " \t*[]@?#,;\"'") {
		return p, fmt.Errorf(`%q is not a host: use "llm.example.com", "10.0.0.7:8000" or "*.example.com"`, s)
	}
	return p, nil
}

// records reports whether u is at a known provider or a configured host.
func (s *hostSet) records(u *url.URL) bool {
	name, port := strings.ToLower(u.Hostname()), u.Port()
	if wire.KnownHost(name, port) || s.exact[hostPort{name, ""}] {
		return true
	}
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	if s.exact[hostPort{name, port}] {
		return true
	}
	for _, suffix := range s.suffixes {
		if strings.HasSuffix(name, suffix.name) && (suffix.port == "" || suffix.port == port) {
			return true
		}
	}
	return false
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

// selects reports whether h records req. It counts LLM calls to unknown hosts.
func (h *Hook) selects(req *http.Request) bool {
	if req.Method != http.MethodPost || req.URL == nil {
		return false
	}
	if !h.hosts.records(req.URL) {
		h.unknown.call(req)
		return false
	}
	return true
}

// maxUnknownHosts is the maximum number of unknown hosts that are logged.
const maxUnknownHosts = 64

// unknownHosts counts LLM calls to unknown hosts and logs each host once.
type unknownHosts struct {
	log *slog.Logger

	mu    sync.Mutex      // guards the fields below
	seen  map[string]bool // hosts that were logged, and one more when it is full
	calls uint64
}

// call counts req, a POST that is not recorded, if it looks like an LLM call.
func (k *unknownHosts) call(req *http.Request) {
	if !strings.Contains(req.Header.Get("Content-Type"), "json") {
		return
	}
	dialect, ok := wire.LooksLikeCall(req.URL.EscapedPath(), req.URL.Port())
	if !ok {
		return
	}
	host := strings.ToLower(req.URL.Host)
	switch known, full := k.add(host); {
	case known:
	case full:
		k.log.Warn("llmtap: LLM calls to further unknown hosts are not recorded, only counted")
	default:
		k.log.Warn("llmtap: LLM calls to an unknown host are not recorded", "host", host, "api", dialect, "fix", "add it with LLMTAP_HOSTS="+host)
	}
}

// add counts a call. known means that nothing must be logged, full that host is the first one beyond maxUnknownHosts.
func (k *unknownHosts) add(host string) (known, full bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	if k.seen[host] || len(k.seen) > maxUnknownHosts {
		return true, false
	}
	if k.seen == nil {
		k.seen = make(map[string]bool)
	}
	k.seen[strings.Clone(host)] = true
	return false, len(k.seen) > maxUnknownHosts
}

func (k *unknownHosts) count() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}
