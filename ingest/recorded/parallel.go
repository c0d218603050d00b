package recorded

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"runtime"

	"golang.org/x/sync/semaphore"
)

const (
	// inFlight limits the bytes of the records that are read but not yet processed by the caller of All. A record of more than
	// inFlight/4 is parsed where it is read, because a copy of it would take too much memory.
	inFlight = 32 << 20
	// queued limits the number of these records, per core.
	queued = 64
)

// A job is a record on its way to the caller of All.
type job struct {
	raw
	size     int64 // acquired from inFlight
	exchange *Exchange
	err      error
	parsed   chan struct{} // closed when exchange or err is set
}

// All yields the results of Next, without io.EOF, in the order of the file, but parses on all cores. After a *RecordError
// reading continues; any other error is the last one, such as that of ctx. The reader must not be used afterwards: if ctx or
// the caller ended the reading, it may still wait for the file.
//
//	file ─> records ─┬─> worker ─┬─> in the order of the file: yield
//	                 └─> worker ─┘
func (r *Reader) All(ctx context.Context) iter.Seq2[*Exchange, error] {
	return func(yield func(*Exchange, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		workers := runtime.GOMAXPROCS(0)
		work, ordered := make(chan *job, queued*workers), make(chan *job, queued*workers)
		limit := semaphore.NewWeighted(inFlight)
		go func() {
			defer close(work)
			defer close(ordered)
			r.jobs(ctx, limit, work, ordered)
		}()
		for range workers {
			go func() {
				for j := range work {
					j.exchange, j.err = r.parse(j.raw)
					j.text = nil // the exchange has copies
					close(j.parsed)
				}
			}()
		}
		for {
			select {
			case j, more := <-ordered:
				if more {
					<-j.parsed
					if !yield(j.exchange, j.err) {
						return
					}
					limit.Release(j.size)
					continue
				}
			case <-ctx.Done():
			}
			if err := ctx.Err(); err != nil { // else this is the end of the file
				yield(nil, err)
			}
			return
		}
	}
}

// jobs sends the records of the file to the workers and to ordered, until the end of the file or of ctx, or a final error.
func (r *Reader) jobs(ctx context.Context, limit *semaphore.Weighted, work, ordered chan<- *job) {
	send := func(j *job, to chan<- *job) bool {
		select {
		case to <- j:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		record, err := r.read()
		if errors.Is(err, io.EOF) {
			return
		}
		j := &job{size: min(int64(len(record.text)), inFlight), err: err, parsed: make(chan struct{})}
		if limit.Acquire(ctx, j.size) != nil {
			return
		}
		switch {
		case err != nil:
			close(j.parsed)
		case j.size > inFlight/4:
			j.exchange, j.err = r.parse(record)
			close(j.parsed)
		default:
			if j.raw = (raw{record.n, bytes.Clone(record.text)}); !send(j, work) {
				return
			}
		}
		if !send(j, ordered) {
			return
		}
		if _, again := errors.AsType[*RecordError](err); err != nil && !again {
			return
		}
	}
}
