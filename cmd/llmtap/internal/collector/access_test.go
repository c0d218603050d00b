package collector

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The commands of a notification work on another host if the collector can be reached from there; otherwise the notification
// names the host.
func TestAccess(t *testing.T) {
	t.Parallel()
	const issues = "https://example.com/new?title={title}"
	name := must.Get(os.Hostname())(t)
	f := func(externalURL, listen string, want alerts.Access) {
		t.Helper()
		want.IssueURL = issues
		must.Agree(t, cmp.Diff(want, reachable(&config.UI{ExternalURL: externalURL, IssueURL: issues}, listen)), externalURL, listen)
	}
	f("https://llmtap.example.com/", config.Default().Listen, alerts.Access{ExternalURL: "https://llmtap.example.com/", URL: "https://llmtap.example.com"})
	f("", config.Default().Listen, alerts.Access{Host: name})
	f("", "127.0.0.1:9000", alerts.Access{Host: name, URL: "http://127.0.0.1:9000"})
	f("", "10.0.0.7:9000", alerts.Access{URL: "http://10.0.0.7:9000"})
	f("", "collector-1:9000", alerts.Access{URL: "http://collector-1:9000"})
	for _, listen := range []string{":9000", "0.0.0.0:9000", "[::]:9000"} {
		f("", listen, alerts.Access{URL: "http://" + name + ":9000"})
	}
}
