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
)

// duplicate is the reason for skipping a record that was imported before in the same run.
const duplicate recorded.Reason = "duplicate"

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

	ahead  int64 // bytes of bodies published since mark
	mark   int   // number of exchanges published when ahead was last reset
	stored uint64
}

// Run imports files; "-" is Stdin. Report is valid even if Run returns an error.
func (im *Importer) Run(ctx context.Context, files []string) error {
	im.seen, im.Report.Skipped = map[uuid.UUID]struct{}{}, map[recorded.Reason]int{}
	started := time.Now()
	defer func() {
		im.Report.Seconds = time.Since(started).Seconds()
		im.Progress.Clear()
	}()
	for _, name := range files {
		if err := im.file(ctx, name); err != nil {
			return err
		}
	}
	if err := im.Publisher.Flush(ctx); err != nil {
		return fmt.Errorf("publish exchanges: %w", err)
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

// file publishes one file and reports unreadable records. It returns only errors that stop the import.
func (im *Importer) file(ctx context.Context, name string) error {
	im.Report.Files++
	in := im.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			im.broken(err)
			return nil
		}
		defer func() { _ = f.Close() }() // used for reading only
		in = f
	}
	cfg := im.Config
	cfg.Name = name
	r, err := recorded.NewReader(in, cfg)
	if err != nil {
		im.broken(err)
		return nil
	}
	before := im.Report.Records
	for x, err := range r.All(ctx) {
		bad, skipped := errors.AsType[*recorded.RecordError](err)
		switch {
		case skipped:
			im.skip(bad)
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("read %s: %w", name, err)
		case err != nil:
			im.broken(err)
			return nil
		default:
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
	im.Progress.Status("%d exchanges, %.1f MB, %d stored", im.Report.Exchanges, float64(im.Report.Bytes)/1e6, im.stored)
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
			err = errors.Join(err, fmt.Errorf("%d of %d exchanges are stored, none within the last %v; the others stay in the stream until the collector reads them", im.stored, n, stallTimeout))
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
	all, err := rows.Read(ctx, im.Store, "findings", `SELECT severity, count() AS n FROM findings_final
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
