package llmtap

import (
	"slices"
	"strings"
	"testing"
)

// OnPublished is told each exchange that NATS has stored, once and in order, and none before NATS is there. One that
// panics is the agent's mistake; the exchanges after it are published all the same.
func TestOnPublished(t *testing.T) {
	dir, port := t.TempDir(), freePort(t)
	var w traffic
	srv := startProvider(t, &w, 200, answer)
	var told []string // the hook's until Close
	h := openHook(t, agentURL(port), srv.URL, func(c *Config) {
		c.OnPublished = func(exchange string) {
			if told = append(told, exchange); len(told) == 1 {
				panic("the agent's")
			}
		}
	})
	for range 5 {
		call(t, h, srv.URL, strings.NewReader(question), nil)
	}
	n := startNATS(t, dir, port)
	flush(t, h)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, x := range exchanges(t, n.events(t)) {
		want = append(want, x[0].Exchange)
	}
	if len(want) != 5 || !slices.Equal(told, want) {
		t.Errorf("told of %q, stored %q", told, want)
	}
}
