package main

import (
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Faults of the hooks' processes.
var hookFaults = []fault{
	{
		// The queue of a hook is in the memory of its process. Each acknowledged call is stored.
		name: "the agents are killed", start: embedded,
		strike: func(r *faultRun) func() {
			r.acked = append(r.acked, r.load.kill(r.T)...)
			r.startLoad()
			return nil
		},
	},
	{
		name: "NATS is away until the queues of the hooks are full", drops: true, hold: 40 * time.Second, start: separate,
		strike: func(r *faultRun) func() { r.nats.kill(r.T); return func() { r.nats.start(r.T) } },
		check: func(r *faultRun) {
			if r.dropped == 0 {
				r.Error("the hooks dropped nothing")
			}
			if n := r.result.tallies[analyzer.MetricDropped]; n != r.dropped {
				r.Errorf("llmtap counts %d dropped exchanges, the hooks %d", n, r.dropped)
			}
		},
	},
}

// stuckSubscriber connects a client to NATS that never reads what it subscribed to.
func stuckSubscriber(r *faultRun) func() {
	u := must.Get(url.Parse(r.natsURL))(r)
	c, err := net.Dial("tcp", u.Host)
	if err == nil {
		_, err = fmt.Fprint(c, "CONNECT {\"verbose\":false}\r\nSUB llmtap.> 1\r\nPING\r\n")
	}
	must.Do(r, err)
	return func() { c.Close() }
}
