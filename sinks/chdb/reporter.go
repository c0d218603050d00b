package chdb

import (
	"encoding/json"
	"os"
	"sync"
	"sync/atomic"
)

// reportQueue is the maximum number of queued reports; further reports are dropped and counted.
const reportQueue = 1024

// A reporter sends reports to the parent without blocking statements.
type reporter struct {
	queue   chan report   // never closed, because a statement that cannot be stopped may still send
	quit    chan struct{} // closed by close
	dropped atomic.Int64
	wg      sync.WaitGroup
}

func newReporter(f *os.File) *reporter {
	r := &reporter{queue: make(chan report, reportQueue), quit: make(chan struct{})}
	r.wg.Go(func() {
		defer func() { _ = f.Close() }()
		enc := json.NewEncoder(f)
		for {
			select {
			case rep := <-r.queue:
				r.write(enc, rep)
			case <-r.quit:
				for len(r.queue) > 0 {
					r.write(enc, <-r.queue)
				}
				return
			}
		}
	})
	return r
}

func (r *reporter) write(enc *json.Encoder, rep report) {
	rep.Dropped = int(r.dropped.Swap(0))
	_ = enc.Encode(rep) // fails if the parent has exited, which ends standard input, too
}

func (r *reporter) send(rep report) {
	select {
	case r.queue <- rep:
	default:
		r.dropped.Add(1)
	}
}

// close sends the queued reports.
func (r *reporter) close() {
	close(r.quit)
	r.wg.Wait()
}
