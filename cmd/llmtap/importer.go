package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// An importer publishes the exchanges of files, in their order, and waits until they are stored.
//
//	files ──> recorded.Reader ──> jetstream.Publisher ──> a running llmtap ──> ClickHouse
//	                                     ^                                        │
//	                                     └──── waits when too far ahead ──────────┘
type importer struct {
	cfg      recorded.Config
	pub      *jetstream.Publisher
	sink     *clickhouse.Sink // nil: what is stored cannot be seen
	stdin    io.Reader
	progress *progress
	report   importReport

	// seen is the exchanges published, about 40 bytes each. The same line again is the same exchange, and must not be
	// judged as a second one.
	seen map[uuid.UUID]struct{}
	seq  uint64 // of the instance

	ahead  int64 // bytes since mark
	mark   int   // exchanges when ahead was last 0
	stored uint64
}

func (im *importer) run(ctx context.Context, files []string) error {
	begun := time.Now()
	defer func() {
		im.report.Seconds = time.Since(begun).Seconds()
		im.progress.clear()
	}()
	for _, name := range files {
		if err := im.file(ctx, name); err != nil {
			return err
		}
	}
	if err := im.pub.Flush(ctx); err != nil {
		return fmt.Errorf("publish what was read: %w", err)
	}
	if im.sink == nil {
		return nil
	}
	if err := im.await(ctx, im.report.Exchanges); err != nil {
		return err
	}
	stored := im.stored
	im.report.Stored = &stored
	return im.findings(ctx)
}

// file publishes one file. What cannot be read is reported; only what stops the import is an error.
func (im *importer) file(ctx context.Context, name string) error {
	im.report.Files++
	in := im.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			im.broken(err)
			return nil
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	cfg := im.cfg
	cfg.Name = name
	r, err := recorded.NewReader(in, cfg)
	if err != nil {
		im.broken(err)
		return nil
	}
	for {
		x, err := r.Next()
		var bad *recorded.RecordError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &bad):
			im.skip(bad)
		case err != nil:
			im.broken(err)
			return nil
		default:
			if err := im.publish(ctx, x); err != nil {
				return err
			}
		}
	}
}

func (im *importer) broken(err error) {
	im.report.Broken++
	im.progress.say("%v", err)
}

func (im *importer) skip(bad *recorded.RecordError) {
	im.report.Records++
	im.report.Skipped[bad.Reason]++
	if bad.Reason == recorded.NotLLM {
		return
	}
	switch n := im.report.unreadable(); {
	case n <= importComplaint:
		im.progress.say("%v", bad)
	case n == importComplaint+1:
		im.progress.say("further records that cannot be read are only counted")
	}
}

// publish sends both halves of x.
func (im *importer) publish(ctx context.Context, x *recorded.Exchange) error {
	im.report.Records++
	if _, ok := im.seen[x.ID]; ok {
		im.report.Skipped[duplicate]++
		return nil
	}
	im.seen[x.ID] = struct{}{}
	for _, half := range []*event.Event{x.Request, x.Response} {
		im.seq++
		half.Seq = im.seq
		for m := range half.Messages() {
			if err := im.pub.Publish(ctx, m); err != nil {
				return fmt.Errorf("publish %s: %w", x.Source, err)
			}
		}
		im.ahead += int64(len(half.Body))
		im.report.Bytes += int64(len(half.Body))
	}
	im.report.Exchanges++
	if !x.HasTime {
		im.report.Untimed++
	}
	im.progress.show(&im.report, im.stored)
	if im.sink == nil || im.ahead < importAhead {
		return nil
	}
	published := im.report.Exchanges
	err := im.await(ctx, im.mark)
	im.ahead, im.mark = 0, published
	return err
}

// await waits until n exchanges of this import are stored.
func (im *importer) await(ctx context.Context, n int) error {
	moved := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		stored, err := im.count(ctx, "SELECT uniqExact(exchange_id) FROM exchanges WHERE instance = {instance:String}")
		if err == nil {
			if stored != im.stored {
				im.stored, moved = stored, time.Now()
			}
			if stored >= uint64(n) {
				return nil
			}
		}
		im.progress.show(&im.report, im.stored)
		if time.Since(moved) > importStall {
			err = errors.Join(err, fmt.Errorf("%d of %d exchanges are stored, and none was for %v; what is published stays in the stream until the collector comes to it", im.stored, n, importStall))
			return fmt.Errorf("wait for the collector: %w", err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("wait for the collector: %w", ctx.Err())
		}
	}
}

func (im *importer) count(ctx context.Context, sql string) (uint64, error) {
	res, err := im.sink.Query(ctx, sql, map[string]string{"instance": im.cfg.Instance})
	if err != nil {
		return 0, err
	}
	n, ok := res.Rows[0][0].(uint64)
	if !ok {
		return 0, fmt.Errorf("a count is %T", res.Rows[0][0])
	}
	return n, nil
}

// findings counts those that the imported exchanges have.
func (im *importer) findings(ctx context.Context) error {
	res, err := im.sink.Query(ctx, `SELECT severity, count() FROM findings_final
		WHERE exchange_id IN (SELECT exchange_id FROM exchanges WHERE instance = {instance:String}) GROUP BY severity`,
		map[string]string{"instance": im.cfg.Instance})
	if err != nil {
		return fmt.Errorf("count findings: %w", err)
	}
	im.report.Findings = map[string]uint64{}
	for _, row := range res.Rows {
		severity, _ := row[0].(string)
		n, _ := row[1].(uint64)
		im.report.Findings[severity] = n
	}
	return nil
}
