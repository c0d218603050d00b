/*
Package importer publishes recorded exchanges to a running llmtap, in the order of the files, and waits until they are stored.

	files ──> recorded.Reader ──> Publisher ──> a running llmtap ──> ClickHouse
	          parses on all cores     ^                                  │
	                                  └──── waits when too far ahead ────┘
*/
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	// maxAhead limits the bodies that are published but not stored to about 2*maxAhead bytes, because an import must not
	// evict the events of agents from the stream.
	maxAhead     = 64 << 20
	pollInterval = 200 * time.Millisecond
	stallTimeout = time.Minute // maximum time without progress in ClickHouse
	maxReported  = 20          // maximum unreadable records listed; further ones are only counted

	// maxAnswers limits the bodies of the answers of batches, which are in memory until their requests are read. Providers limit
	// the requests of a batch to 256 MB.
	maxAnswers = 1 << 30
)

// Reasons for skipping a record.
const (
	duplicate recorded.Reason = "duplicate"  // imported before in the same run
	noRequest recorded.Reason = "no_request" // an answer of a batch whose request is in no file
	ambiguous recorded.Reason = "ambiguous"  // several requests or answers of batches have the same custom id
)

// A Publisher publishes events. It is implemented by *jetstream.Publisher.
type Publisher interface {
	Publish(ctx context.Context, e *event.Event) error
	Flush(ctx context.Context) error
}

// An Importer imports files.
type Importer struct {
	Config    recorded.Config
	Publisher Publisher
	Store     rows.Querier // nil: Run does not wait until exchanges are stored
	Stdin     io.Reader
	Progress  *terminal.Progress
	Report    Report

	// seen contains the published exchanges (about 40 bytes each), because a repeated line is the same exchange and must
	// not be judged twice.
	seen map[uuid.UUID]struct{}
	seq  uint64 // last sequence of the instance

	answers     map[string]*answer // by the custom id of a batch's request
	answerBytes int

	ahead  int64 // bytes of bodies published since mark
	mark   int   // number of exchanges published when ahead was last reset
	stored uint64
}

// An answer is the answer to a request of a batch.
type answer struct {
	*recorded.Exchange
	request   uuid.UUID // that it answers
	ambiguous bool      // another answer has its custom id
}

// An input is an open file.
type input struct {
	name   string
	file   io.Closer
	reader *recorded.Reader
}

// Run imports files; "-" is Stdin. The requests of batches are read last, because their answers may be in any other file.
// Report is valid even if Run returns an error.
func (im *Importer) Run(ctx context.Context, files []string) error {
	im.seen, im.Report.Skipped, im.answers = map[uuid.UUID]struct{}{}, map[recorded.Reason]int{}, map[string]*answer{}
	started := time.Now()
	defer func() {
		im.Report.Seconds = time.Since(started).Seconds()
		im.Progress.Clear()
	}()
	var batches []*input
	for _, name := range files {
		in := im.open(name)
		if in == nil {
			continue
		}
		if in.reader.AwaitsAnswers {
			batches = append(batches, in)
		} else if err := im.read(ctx, in); err != nil {
			return err
		}
	}
	for _, in := range batches {
		if err := im.read(ctx, in); err != nil {
			return err
		}
	}
	im.countUnasked()
	if err := im.Publisher.Flush(ctx); err != nil {
		return fmt.Errorf("publish calls: %w", err)
	}
	if im.Store == nil {
		return nil
	}
	if err := im.await(ctx, im.Report.Exchanges); err != nil {
		return err
	}
	stored := im.stored
	im.Report.Stored = &stored
	return im.countFindings(ctx)
}

// open opens a file. If that fails, it reports it and returns nil.
func (im *Importer) open(name string) *input {
	im.Report.Files++
	in := &input{name: name, file: io.NopCloser(im.Stdin)}
	r := im.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			im.broken(err)
			return nil
		}
		in.file, r = f, f
	}
	cfg := im.Config
	cfg.Name = name
	var err error
	if in.reader, err = recorded.NewReader(r, cfg); err != nil {
		_ = in.file.Close() // used for reading only
		im.broken(err)
		return nil
	}
	return in
}

// read publishes one file and reports unreadable records. It returns only errors that stop the import.
func (im *Importer) read(ctx context.Context, in *input) error {
	name := in.name
	defer func() { _ = in.file.Close() }() // used for reading only
	before := im.Report.Records
	for x, err := range in.reader.All(ctx) {
		bad, skipped := errors.AsType[*recorded.RecordError](err)
		switch {
		case skipped:
			im.skip(bad)
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case err != nil:
			im.broken(err)
			return nil
		case x.Request == nil:
			if err := im.keep(x); err != nil {
				return err
			}
		case x.CustomID == "" || im.join(x):
			if err := im.publish(ctx, x); err != nil {
				return err
			}
		}
	}
	if im.Report.Records == before {
		im.Report.Empty++
		im.Progress.Printf("%s: no records", name)
	}
	return nil
}

// keep keeps an answer of a batch until its request is read.
func (im *Importer) keep(x *recorded.Exchange) error {
	if other := im.answers[x.CustomID]; other != nil {
		if other.ID != x.ID {
			other.ambiguous = true
			im.skip(&recorded.RecordError{Source: x.Source, Reason: ambiguous, Err: fmt.Errorf("%s has another answer with custom_id %q: import each batch separately", other.Source, x.CustomID)})
		}
		return nil
	}
	im.Report.Records++
	im.answers[x.CustomID] = &answer{Exchange: x}
	if im.answerBytes += len(x.Response.Body); im.answerBytes > maxAnswers {
		return fmt.Errorf("read %s: the answers of the batches exceed %d MiB; import fewer batches at once", x.Source, maxAnswers>>20)
	}
	return nil
}

// join adds the answer to a request of a batch, if it was read. It returns false if it answers another request.
func (im *Importer) join(x *recorded.Exchange) bool {
	a := im.answers[x.CustomID]
	switch {
	case a == nil:
		return true
	case a.request != uuid.Nil && a.request != x.ID:
		im.skip(&recorded.RecordError{Source: x.Source, Reason: ambiguous, Err: fmt.Errorf("another request has custom_id %q: import each batch separately", x.CustomID)})
		return false
	}
	if a.request = x.ID; !a.ambiguous {
		x.Answer(a.Response)
	}
	return true
}

// countUnasked counts the answers of batches whose requests are in no file.
func (im *Importer) countUnasked() {
	n := 0
	for _, a := range im.answers {
		if a.request == uuid.Nil {
			n++
		}
	}
	if n > 0 {
		im.Report.Skipped[noRequest] = n
		im.Progress.Printf("%s of batches without requests: import the files of the requests with them", quantity.Plural(n, "answer"))
	}
}

func (im *Importer) broken(err error) {
	im.Report.Broken++
	im.Progress.Printf("%v", err)
}

func (im *Importer) skip(bad *recorded.RecordError) {
	im.Report.Records++
	im.Report.Skipped[bad.Reason]++
	if bad.Reason == recorded.NotLLM {
		return
	}
	switch n := im.Report.unreadable(); {
	case n <= maxReported:
		im.Progress.Printf("%v", bad)
	case n == maxReported+1:
		im.Progress.Printf("further unreadable records are only counted")
	}
}

// publish publishes the request and the response of x.
func (im *Importer) publish(ctx context.Context, x *recorded.Exchange) error {
	im.Report.Records++
	if _, ok := im.seen[x.ID]; ok {
		im.Report.Skipped[duplicate]++
		return nil
	}
	im.seen[x.ID] = struct{}{}
	for _, half := range []*event.Event{x.Request, x.Response} {
		im.seq++
		half.Seq = im.seq
		for m := range half.Messages(event.PartBytes) {
			if err := im.Publisher.Publish(ctx, m); err != nil {
				return fmt.Errorf("publish %s: %w", x.Source, err)
			}
		}
		im.ahead += int64(len(half.Body))
		im.Report.Bytes += int64(len(half.Body))
	}
	im.Report.Exchanges++
	if !x.HasTime {
		im.Report.Untimed++
	}
	im.status()
	if im.Store == nil || im.ahead < maxAhead {
		return nil
	}
	published := im.Report.Exchanges
	err := im.await(ctx, im.mark)
	im.ahead, im.mark = 0, published
	return err
}

func (im *Importer) status() {
	im.Progress.Status("%d calls, %.1f MB, %d stored", im.Report.Exchanges, float64(im.Report.Bytes)/1e6, im.stored)
}

// await waits until n exchanges of this import are stored.
func (im *Importer) await(ctx context.Context, n int) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for advanced := time.Now(); ; {
		stored, err := im.countStored(ctx)
		if err == nil {
			if stored != im.stored {
				im.stored, advanced = stored, time.Now()
			}
			if stored >= uint64(n) {
				return nil
			}
		}
		im.status()
		if time.Since(advanced) > stallTimeout {
			err = errors.Join(err, fmt.Errorf("%d of %d calls are stored, none within the last %v; the others stay in the stream until the collector reads them", im.stored, n, stallTimeout))
			return fmt.Errorf("wait for the collector: %w", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the collector: %w", ctx.Err())
		}
	}
}

func (im *Importer) countStored(ctx context.Context) (uint64, error) {
	all, err := rows.Read(ctx, im.Store, "exchanges", "SELECT uniqExact(exchange_id) AS n FROM exchanges WHERE instance = {instance:String}", im.params())
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return uint64(all[0].Int("n")), nil
}

// countFindings counts the findings of the imported exchanges.
func (im *Importer) countFindings(ctx context.Context) error {
	all, err := rows.Read(ctx, im.Store, "findings", `SELECT severity, count() AS n FROM findings FINAL
		WHERE exchange_id IN (SELECT exchange_id FROM exchanges WHERE instance = {instance:String}) GROUP BY severity`, im.params())
	if err != nil {
		return err
	}
	im.Report.Findings = map[string]uint64{}
	for _, r := range all {
		im.Report.Findings[r.Text("severity")] = uint64(r.Int("n"))
	}
	return nil
}

func (im *Importer) params() map[string]string {
	return map[string]string{"instance": im.Config.Instance}
}
