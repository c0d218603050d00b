package llmtap

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// A process that has sent an event says every minute that it is alive, and that it ends. While NATS stores nothing, it does not.
func TestHeartbeat(t *testing.T) {
	dir, port := t.TempDir(), testnet.FreePort(t)
	var w traffic
	srv := startProvider(t, &w, 200, answer)
	h := openHook(t, agentURL(port), srv.URL, nil)
	h.heartbeat() // nothing sent yet
	call(t, h, srv.URL, strings.NewReader(question), nil)
	h.heartbeat() // nothing stored yet
	n := startNATS(t, dir, port)
	flush(t, h)
	for range 2 {
		h.heartbeat()
		flush(t, h)
	}
	must.Do(t, h.Close())
	h.heartbeat() // closed
	var got []string
	for _, m := range n.events(t) {
		if m.Kind == event.Hook {
			got = append(got, m.HookStatus)
			if m.Instance == "" || m.Labels.Service == "" || m.Seq == 0 {
				t.Errorf("%+v", m)
			}
		}
	}
	if want := []string{event.HookAlive, event.HookAlive, event.HookEnded}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
