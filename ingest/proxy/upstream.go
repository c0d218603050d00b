package proxy

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/ingest/loopback"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An upstream is a target of the proxy.
type upstream struct {
	name         string
	scheme, host string
	path         string // escaped base path, without a trailing slash
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func newUpstream(name, base string) (*upstream, error) {
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("name %q does not match %s", name, validName)
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: invalid URL", name) // the error of url.Parse may contain a password
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, fmt.Errorf("%s: %q is not like https://llm.example.com or http://127.0.0.1:11434", name, u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, fmt.Errorf("%s: user, query and fragment are not allowed; keys come with each request", name)
	case dots(u.Path):
		return nil, fmt.Errorf("%s: the path has a dot segment", name)
	}
	return &upstream{name: name, scheme: u.Scheme, host: u.Host, path: strings.TrimRight(u.EscapedPath(), "/")}, nil
}

// newUpstreams returns the default upstreams, overridden and extended by the configured ones. Default upstreams have
// no path, so that one instruction is right for all of them: replace the scheme and host of the provider's base URL
// with the proxy's URL and the name.
func newUpstreams(configured map[string]string) (map[string]*upstream, error) {
	all := wire.Upstreams()
	maps.Copy(all, configured)
	m := make(map[string]*upstream, len(all))
	for name, base := range all {
		up, err := newUpstream(name, base)
		if err != nil {
			return nil, fmt.Errorf("upstreams: %w", err)
		}
		m[name] = up
	}
	return m, nil
}

// plaintext reports whether calls and the API keys in them leave this machine unencrypted.
func (u *upstream) plaintext() bool {
	return u.scheme == "http" && !loopback.Is(u.host)
}

// setTarget sets the scheme, host and path of out. rest is the escaped path relative to the upstream's path.
func (u *upstream) setTarget(out *url.URL, rest string) {
	out.Scheme, out.Host = u.scheme, u.host
	out.RawPath = u.path + rest
	if p, err := url.PathUnescape(out.RawPath); err == nil { // never fails, because both parts were parsed before
		out.Path = p
	}
}

// split splits an escaped path after the first segment: /openai/v1/models becomes openai and /v1/models.
func split(path string) (name, rest string) {
	path = strings.TrimPrefix(path, "/")
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// dots reports whether a decoded path contains a segment "." or "..", which could lead outside the path of the
// upstream.
func dots(path string) bool {
	for s := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if s == "." || s == ".." {
			return true
		}
	}
	return false
}

func names(m map[string]*upstream) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }
