package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/ingest/loopback"
)

// A refusal is an error response of the proxy itself. Its message states the remedy.
type refusal struct {
	status  int
	message string
}

func refuse(status int, format string, args ...any) *refusal {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// write responds with the error object that the SDKs of all providers can display.
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
	_, _ = w.Write(b) // fails only if the caller has disconnected
}

// route returns the upstream of r and the escaped path relative to the upstream, or a refusal.
func (p *Proxy) route(r *http.Request) (up *upstream, rest string, err *refusal) {
	if err := p.authorize(r); err != nil {
		return nil, "", err
	}
	if r.Method == http.MethodConnect {
		return nil, "", refuse(http.StatusMethodNotAllowed, "CONNECT is not supported; set the SDK's base URL instead of HTTP_PROXY")
	}
	if to := upgrade(r.Header); to != "" && !strings.EqualFold(to, "h2c") {
		return nil, "", refuse(http.StatusNotImplemented, "upgrade to %q is not supported; connect to the provider directly", to)
	}
	path := r.URL.EscapedPath()
	name := r.Header.Get("X-Llmtap-Upstream")
	if name != "" {
		rest = path
	} else {
		name, rest = split(path)
	}
	if up = p.upstreams[name]; up == nil {
		return nil, "", refuse(http.StatusNotFound, "unknown upstream %q; set the SDK's base URL to http://%s/<upstream> and the path of the provider's base URL, "+
			"or send X-Llmtap-Upstream. Upstreams: %s. Add others with --proxy-upstream name=url", name, r.Host, names(p.upstreams))
	}
	if rest != "" && rest[0] != '/' || dots(r.URL.Path) {
		return nil, "", refuse(http.StatusBadRequest, "path %q has a dot segment or does not start with a slash", r.URL.Path)
	}
	return up, rest, nil
}

// authorize refuses r unless it has the configured token or, if no token is configured, a loopback host in its Host
// header. It also refuses requests from web pages of other origins.
func (p *Proxy) authorize(r *http.Request) *refusal {
	host := hostname(r.Host)
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || !loopback.Is(u.Hostname()) && !strings.EqualFold(u.Hostname(), host) {
			return refuse(http.StatusForbidden, "requests from web pages of %s are not allowed", origin)
		}
	} else if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" && site != "same-origin" {
		// Browsers send no Origin with requests such as those for images.
		return refuse(http.StatusForbidden, "requests from web pages of other sites are not allowed")
	}
	if !p.tokens.Required() {
		if !loopback.Is(host) {
			return refuse(http.StatusForbidden, "host %q is not loopback; use 127.0.0.1, or configure a token and send it as X-Llmtap-Token", r.Host)
		}
		return nil
	}
	if !p.tokens.Accept(r.Header.Get("X-Llmtap-Token")) {
		return refuse(http.StatusUnauthorized, "send the proxy's token in the header X-Llmtap-Token, in addition to the provider's key")
	}
	return nil
}

// upgrade returns the protocol that the client requests for the connection.
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

// hostname returns host, a Host header, without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}
