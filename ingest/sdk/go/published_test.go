package llmtap

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// OnPublished is called for each stored exchange, once and in order, and not before NATS is up. After a panic of OnPublished
// the hook publishes the following exchanges.
func TestOnPublished(t *testing.T) {
	dir, port := t.TempDir(), testnet.FreePort(t)
	var w traffic
	srv := startProvider(t, &w, 200, answer)
	var got []string // owned by the hook until Close
	h := openHook(t, agentURL(port), srv.URL, func(c *Config) {
		c.OnPublished = func(exchange string) {
			if got = append(got, exchange); len(got) == 1 {
				panic("the agent's")
			}
		}
	})
	for range 5 {
		call(t, h, srv.URL, strings.NewReader(question), nil)
	}
	n := startNATS(t, dir, port)
	flush(t, h)
	must.Do(t, h.Close())
	var want []string
	for _, x := range exchanges(t, n.events(t)) {
		want = append(want, x[0].Exchange)
	}
	if len(want) != 5 || !slices.Equal(got, want) {
		t.Errorf("OnPublished got %q, want %q", got, want)
	}
}
