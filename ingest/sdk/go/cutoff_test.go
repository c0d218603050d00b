package llmtap

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// A server that is cut off from the network does not close the connection of a hook. The hook goes on with the next server.
func TestNATSCutOff(t *testing.T) {
	t.Parallel()
	n := startNATS(t, t.TempDir(), -1)
	u := must.Get(url.Parse(n.url))(t)
	link := testnet.NewLink(t, u.Host)
	link.Open()
	cutOff := *u
	cutOff.Host = link.Addr
	h := openHook(t, cutOff.String()+","+n.url, "http://provider.test", func(c *Config) {
		c.NATSOptions = []nats.Option{nats.DontRandomize(), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0)}
	})
	rt := h.Transport(roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	}))
	call := func(stored uint64) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider.test/v1", strings.NewReader("{}"))
		if err == nil {
			_, err = rt.RoundTrip(req)
		}
		must.Do(t, err)
		must.Wait(t, "published", func() bool { return h.Stats().Published >= stored }, func() any { return h.Stats() })
	}
	call(1)
	link.Pause()
	defer link.Resume()
	call(2)
}
