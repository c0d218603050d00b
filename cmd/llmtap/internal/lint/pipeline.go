package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
)

// Limits of the pipeline.
const (
	batchBytes = 128 << 10 // text of a batch, unless one record is longer
	batchJobs  = 64
	// inFlight limits the text that is read but not yet judged, unless one record is longer. The reader waits until a batch
	// of more than inFlight/4 is judged, because a record and its facts may take several times the memory of its text.
	inFlight = 32 << 20
)

// A batch is a sequence of jobs that one worker prepares.
type batch struct {
	jobs   []job
	text   []byte // texts of the jobs
	bodies []byte // requests of the conversations
	bytes  int64  // acquired from inFlight
	ready  chan struct{}
}

// batches contains the memory of finished batches for reuse.
var batches = sync.Pool{New: func() any { return &batch{jobs: make([]job, 0, batchJobs)} }}

// release returns the memory of b to batches, except texts to which the conversations of exchanges refer, and the memory of a
// long record.
func (b *batch) release() {
	if cap(b.text) > batchBytes || slices.ContainsFunc(b.jobs, func(j job) bool { return j.request != nil }) {
		b.text = nil
	}
	clear(b.jobs)
	if cap(b.bodies) > batchBytes {
		b.bodies = nil
	}
	batches.Put(b)
}

// Files checks files and closes the Printer. A directory stands for its files that contain records; "-" is stdin. Files
// returns write errors, or the error of ctx if it ended; read errors are reported as Results.
//
//	reader ─> batches ─┬─> worker ─┬─> in the order of the records: judge exchanges, print
//	                   └─> worker ─┘
func (l *Linter) Files(ctx context.Context, names []string, stdin io.Reader) error {
	if err := l.run(ctx, names, stdin); err != nil {
		return err
	}
	return l.Printer.Close(l.Counts)
}

// run checks files. After a write error it returns at once, although the reader may still wait for stdin.
func (l *Linter) run(ctx context.Context, names []string, stdin io.Reader) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	work, ordered := make(chan *batch, workers), make(chan *batch, workers)
	limit := semaphore.NewWeighted(inFlight)
	r := &reader{stdin: stdin, probe: l.newWorker(), send: func(b *batch) bool {
		b.bytes = min(b.bytes, inFlight)
		if limit.Acquire(reading, b.bytes) != nil {
			return false
		}
		for _, to := range []chan<- *batch{work, ordered} {
			select {
			case to <- b:
			case <-reading.Done():
				return false
			}
		}
		if b.bytes > inFlight/4 {
			if limit.Acquire(reading, inFlight) != nil {
				return false
			}
			limit.Release(inFlight)
		}
		return true
	}}
	go func() {
		defer close(work)
		defer close(ordered)
		for _, name := range names {
			if !r.path(name) {
				return
			}
		}
		r.flush()
	}()
	for range workers {
		w := l.newWorker()
		go func() {
			for b := range work {
				w.bodies = b.bodies[:0]
				for i := range b.jobs {
					w.prepare(&b.jobs[i])
				}
				b.bodies = w.bodies
				close(b.ready)
			}
		}()
	}
	for b := range ordered {
		<-b.ready
		for i := range b.jobs {
			if err := l.finish(&b.jobs[i]); err != nil {
				return err
			}
		}
		limit.Release(b.bytes)
		b.release()
	}
	return ctx.Err() // nil unless the reader stopped before the end
}

// A reader reads files into batches.
type reader struct {
	stdin   io.Reader
	probe   *worker
	send    func(*batch) bool // reports whether reading should continue
	current *batch
	stopped bool
}

// flush sends the current batch.
func (r *reader) flush() {
	if r.current != nil && !r.stopped {
		r.stopped = !r.send(r.current)
	}
	r.current = nil
}

// add adds a job with the given text to the current batch, and reports whether reading should continue.
func (r *reader) add(j job, text []byte) bool {
	b := r.current
	if b != nil && (len(b.jobs) == batchJobs || len(b.text)+len(text) > cap(b.text)) {
		r.flush()
		b = nil
	}
	if b == nil {
		b = batches.Get().(*batch)
		b.jobs, b.text, b.bytes, b.ready = b.jobs[:0], b.text[:0], 0, make(chan struct{})
		r.current = b
	}
	b.bytes += int64(len(text))
	if len(text) > records.Kept {
		j.value.Text = text
	} else {
		if len(text) > cap(b.text) {
			b.text = make([]byte, 0, max(batchBytes, len(text)))
		}
		start := len(b.text)
		b.text = append(b.text, text...)
		j.value.Text = b.text[start:len(b.text):len(b.text)]
	}
	if b.jobs = append(b.jobs, j); len(text) > batchBytes {
		r.flush()
	}
	return !r.stopped
}

// path reads a file or the files of a directory, and reports whether reading should continue.
func (r *reader) path(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return r.file(name)
	}
	files, err := filesIn(name)
	switch {
	case err != nil:
		return r.add(job{res: Result{Source: name, file: name}, unreadable: err}, nil)
	case len(files) == 0:
		return r.add(job{res: Result{Source: name, file: name}, skipped: errors.New("no " + strings.Join(extensions, ", ") + " files")}, nil)
	}
	for _, file := range files {
		if !r.file(file) {
			return false
		}
	}
	return true
}

// file reads a file and reports whether reading should continue.
func (r *reader) file(name string) bool {
	in := r.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return r.add(job{res: Result{Source: name, file: name}, unreadable: err}, nil)
		}
		defer func() { _ = f.Close() }() // used for reading only
		in = f
	}
	found := false
	for v := range records.Runs(flusher{in, r}) {
		found = true
		lines := 1
		if v.Repeats > 0 && r.judges(v) {
			lines, v.Repeats = v.Repeats+1, 0
		}
		for range lines {
			if !r.value(name, v) {
				return false
			}
			v.Line++
		}
	}
	if !found {
		return r.add(job{res: Result{Source: name, file: name}, skipped: errors.New("no records")}, nil)
	}
	return true
}

// value adds the records of a value and reports whether reading should continue.
func (r *reader) value(name string, v records.Value) bool {
	last := 0
	for i, v := range records.Split(v) {
		res := Result{Source: fmt.Sprintf("%s:%d", name, v.Number()), Repeats: v.Repeats, file: name, line: v.Line}
		if res.exchange = res.Source; v.Number() == last {
			res.exchange = fmt.Sprintf("%s[%d]", res.Source, i)
		}
		last = v.Number()
		text := v.Text
		v.Text = nil
		if !r.add(job{res: res, value: v}, text) {
			return false
		}
	}
	return true
}

// judges reports whether the value contains a record that is judged, or several records.
func (r *reader) judges(v records.Value) bool {
	if len(records.Split(v)) > 1 {
		return true
	}
	j := job{value: v}
	r.probe.bodies = r.probe.bodies[:0]
	r.probe.prepare(&j)
	j.release()
	return j.unreadable == nil && j.skipped == nil
}

// A flusher sends the current batch before it reads on, because a pipe may block.
type flusher struct {
	io.Reader
	r *reader
}

func (f flusher) Read(p []byte) (int, error) {
	f.r.flush()
	return f.Reader.Read(p)
}
