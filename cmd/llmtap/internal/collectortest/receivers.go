package collectortest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/llmtap/llmtap/alerts/email/smtptest"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Receivers is a server that acts as Slack, a webhook, PagerDuty, Teams, an Alertmanager and a heartbeat monitor, and records its requests.
// Mails go to a mail server beside it.
type Receivers struct {
	*httptest.Server
	Mail     *smtptest.Server
	mu       sync.Mutex // guards the fields below
	requests []string
	broken   string // path that fails
}

// firstText is the title of a card.
var firstText = regexp.MustCompile(`"text":"[^"]*"`)

// StartReceivers runs a Receivers server until the test ends.
func StartReceivers(t *testing.T) *Receivers {
	t.Helper()
	r := new(Receivers)
	r.Server, r.Mail = httptest.NewServer(r), smtptest.Start(t, "PLAIN", false)
	t.Cleanup(r.Close)
	return r
}

// HookSecret is the secret of the webhook.
const HookSecret = "0123456789abcdef"

func (r *Receivers) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	what := req.Method + " " + req.URL.Path
	switch req.URL.Path {
	case "/hook", "/critical":
		if req.Header.Get(webhook.HeaderSignature) != webhook.Sign([]byte(HookSecret), req.Header.Get(webhook.HeaderTimestamp), body) {
			what += " unsigned"
		}
		var m webhook.Message
		if err := json.Unmarshal(body, &m); err == nil {
			what += " " + m.Status + " " + m.CommonLabels["alertname"]
		}
	case "/v2/enqueue":
		var e struct {
			Action   string `json:"event_action"`
			DedupKey string `json:"dedup_key"`
			Payload  struct{ Severity string }
		}
		if err := json.Unmarshal(body, &e); err == nil {
			what += " " + strings.TrimSpace(e.Action+" "+e.Payload.Severity)
			if strings.HasSuffix(e.DedupKey, "/page") {
				what += " of the page"
			}
		}
	case "/teams":
		what += " " + firstText.FindString(string(body))
	case "/api/v2/alerts":
		if req.Header.Get("Authorization") != "Bearer s3cret" {
			what += " without token"
		}
		what += " " + regexp.MustCompile(`"alertname":"\w+"`).FindString(string(body))
	}
	r.mu.Lock()
	broken := r.broken == req.URL.Path
	if broken {
		what += " refused"
	}
	r.requests = append(r.requests, what)
	r.mu.Unlock()
	switch {
	case broken:
		http.Error(w, "not today", http.StatusServiceUnavailable)
	case strings.HasPrefix(req.URL.Path, "/slack/"):
		_, _ = io.WriteString(w, `{"ok":true,"team":"Acme","user":"llmtap","channel":"C1","ts":"1.2","channels":[{"id":"C1","name":"oncall","is_member":true}]}`)
	case req.URL.Path == "/api/v2/status":
		_, _ = io.WriteString(w, `{"cluster":{},"versionInfo":{"version":"0.28.1"}}`)
	}
}

// Requests returns the requests received since the last call of Requests: method, path and alerts, and whether it was refused.
func (r *Receivers) Requests() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := strings.Join(r.requests, "\n")
	r.requests = nil
	return requests
}

// Break makes requests to path fail with status 503.
func (r *Receivers) Break(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = path
}

// ConfigFile returns a configuration file with all receivers.
func (r *Receivers) ConfigFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "llmtap.yaml")
	text := strings.ReplaceAll(`data_dir: `+t.TempDir()+`
slack: {channel: "#oncall", token: xoxb-1, api_url: URL/slack/}
webhook: {url: URL/hook?key=hidden, secret: `+HookSecret+`}
pagerduty: {routing_key: hidden, url: URL/v2/enqueue}
msteams: {webhook_url: "URL/teams?sig=hidden"}
email:
  to: oncall@example.com
  from: llmtap@example.com
  smarthost: `+r.Mail.Addr+`
  auth_username: `+smtptest.User+`
  auth_password: `+smtptest.Password+`
  tls_config: {ca_file: `+r.Mail.CAFile+`}
alertmanager:
  urls: [URL]
  token: s3cret
alerts: {heartbeat_url: URL/ping/hidden}
routing:
  routes: [{matchers: ['severity="critical"'], receivers: [critical]}]
  receivers: [{name: critical, webhook_configs: [{url: URL/critical?key=hidden, secret: `+HookSecret+`}]}]
`, "URL", r.URL)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
