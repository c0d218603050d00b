package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// A refusal is the proxy's own answer: the call goes nowhere. Its message says what to do.
type refusal struct {
	status  int
	message string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// write answers in the shape that the SDKs of all providers can show: an object error with a message.
func (f *refusal) write(w http.ResponseWriter) {
	type body struct {
		Message string `json:"message"`
		Type    string `json:"type"`
	}
	b, err := json.Marshal(map[string]body{"error": {"llmtap proxy: " + f.message, "llmtap_proxy_error"}})
	if err != nil {
		b = []byte(`{"error":{"message":"llmtap proxy","type":"llmtap_proxy_error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(b) // fails only where the caller has gone
}

// admit says where r goes and which path it asks for there, or why it goes nowhere.
func (p *Proxy) admit(r *http.Request) (up *upstream, rest string, no *refusal) {
	if no := p.allowed(r); no != nil {
		return nil, "", no
	}
	if r.Method == http.MethodConnect {
		return nil, "", refuse(http.StatusMethodNotAllowed, "CONNECT is not for a reverse proxy; set the SDK's base URL instead of HTTP_PROXY")
	}
	if to := upgrade(r.Header); to != "" && !strings.EqualFold(to, "h2c") {
		return nil, "", refuse(http.StatusNotImplemented, "an upgrade to %q is not passed on; connect to the provider itself for it", to)
	}
	path := r.URL.EscapedPath()
	name := r.Header.Get("X-Llmtap-Upstream")
	if name != "" {
		rest = path
	} else {
		name, rest = split(path)
	}
	if up = p.upstreams[name]; up == nil {
		return nil, "", refuse(http.StatusNotFound, "there is no upstream %q; set the SDK's base URL to http://%s/<upstream> and the path of the provider's own base URL, "+
			"or send X-Llmtap-Upstream. Upstreams: %s. More can be configured (--proxy-upstream name=url)", name, r.Host, names(p.upstreams))
	}
	if rest != "" && rest[0] != '/' || dots(r.URL.Path) {
		return nil, "", refuse(http.StatusBadRequest, "the path %q has a dot segment or no slash at its start", r.URL.Path)
	}
	return up, rest, nil
}

// allowed lets in who has the token; where none is configured, whoever means this machine by its loopback name.
func (p *Proxy) allowed(r *http.Request) *refusal {
	host := hostname(r.Host)
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !loopback(u.Hostname()) && !strings.EqualFold(u.Hostname(), host) {
			return refuse(http.StatusForbidden, "web pages of %s may not use it", origin)
		}
	}
	if p.token == nil {
		if !loopback(host) {
			return refuse(http.StatusForbidden, "the host %q is not loopback; ask 127.0.0.1, or configure a token and send it as X-Llmtap-Token", r.Host)
		}
		return nil
	}
	sum := sha256.Sum256([]byte(r.Header.Get("X-Llmtap-Token")))
	if subtle.ConstantTimeCompare(sum[:], p.token) != 1 {
		return refuse(http.StatusUnauthorized, "send the proxy's token in the header X-Llmtap-Token, beside the provider's own key")
	}
	return nil
}

// upgrade returns the protocol that the connection shall change to.
func upgrade(h http.Header) string {
	for _, v := range h["Connection"] {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return h.Get("Upgrade")
			}
		}
	}
	return ""
}

// hostname returns a Host header without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
