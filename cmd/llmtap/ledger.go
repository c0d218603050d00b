package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

const (
	ledgerWriters = 16               // entries that are written at once
	ledgerTimeout = 5 * time.Second  // of one of them
	ledgerRead    = 30 * time.Second // to read all
	ledgerRetry   = time.Second      // between tries to read all
	ledgerHint    = "the checkpoint waits for it and nothing is lost; look at NATS and its bucket " + event.BucketLedger

	// ledgerLasts is how long entries stay that a former cut of the stream, or a former stream, left.
	ledgerLasts = 60 * 24 * time.Hour
)

// A ledgerBucket is where a ledger is kept.
type ledgerBucket interface {
	Each(ctx context.Context, fn func(key string, value []byte, revision uint64) error) error
	Get(ctx context.Context, key string) (value []byte, revision uint64, err error)
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	Purge(ctx context.Context, key string, revision uint64) error
}

var _ ledgerBucket = (*jetstream.KV)(nil)

// A ledgerStore keeps what an analyzer remembers for weeks, one key an entry:
//
//	<stream>.<partitions>.<partition>.<entry>
//
// The stream and its cut are part of the key because sequences mean nothing elsewhere: entries of another stream or cut
// are taken over when a partition starts, as foreign ones, and those of the other partitions of this cut are left alone.
//
//	step 1 ── add ─┐          ┌─ keep: entries of the steps that the batch is of
//	step 2 ── add ─┼─ batch ──┤   by compare-and-set; what another process wrote in between is merged
//	step 3 ── add ─┘  stored  └─ checkpoint
//
// An entry is kept after the rows of its step are stored and before the checkpoint moves over it. So a process that dies
// leaves entries that are ahead of its checkpoint, never behind, and an analyzer takes nothing twice. A process that only
// believes that it still holds the partition computes the same entries as the one that does, of an earlier place in the
// stream, which loses against a later one.
type ledgerStore struct {
	open   func(context.Context) (ledgerBucket, error)
	cut    string // how the keys of this stream and cut begin
	own    string // and those of this partition
	last   uint64 // of the stream: entries beyond it are of events that the stream has lost
	logger *slog.Logger

	mu    sync.Mutex // guards steps and count
	steps []ledgerStep
	count uint64 // steps added

	// Of load, then of keep.
	bucket    ledgerBucket
	mrev      sync.Mutex        // guards revisions
	revisions map[string]uint64 // by key, of those that exist
}

// A ledgerStep is what one step of the analyzer changed.
type ledgerStep struct {
	number  uint64
	changed []ledger.Entry
	gone    []ledger.Key
}

// newLedger returns the ledger of the partition p of n that reader reads.
func newLedger(conn *jetstream.Conn, p, n int, reader *jetstream.Reader, logger *slog.Logger) *ledgerStore {
	created, last := reader.Stream()
	stream := strconv.FormatInt(created.UnixNano(), 36) + "."
	cut := stream + strconv.Itoa(n) + "."
	return &ledgerStore{
		open: func(ctx context.Context) (ledgerBucket, error) { return conn.KV(ctx, event.BucketLedger) },
		cut:  cut, own: cut + strconv.Itoa(p) + ".", last: last, logger: logger, revisions: map[string]uint64{},
	}
}

// load gives a what was kept. It tries until that works or ctx ends: an analyzer without its ledger would take old
// defects for new ones.
func (l *ledgerStore) load(ctx context.Context, a *analyzer.Analyzer) error {
	for try := 1; ; try++ {
		read, cancel := context.WithTimeout(ctx, ledgerRead)
		entries, err := l.read(read)
		cancel()
		if err == nil {
			l.remember(ctx, a, entries)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("read the ledger: %w", ctx.Err())
		}
		l.logger.Warn("the ledger cannot be read, trying on; nothing is analyzed until it is", "tries", try, "err", err, "hint", ledgerHint)
		pause(ctx, ledgerRetry)
	}
}

// A keptEntry is an entry as it is in the bucket.
type keptEntry struct {
	key      string // in the bucket
	id       string // of the entry
	value    []byte
	revision uint64
	own      bool
}

// read reads all entries but those of other partitions of this cut.
func (l *ledgerStore) read(ctx context.Context) (entries []keptEntry, err error) {
	if l.bucket, err = l.open(ctx); err != nil {
		return nil, err
	}
	err = l.bucket.Each(ctx, func(key string, value []byte, revision uint64) error {
		id, own := strings.CutPrefix(key, l.own)
		if !own {
			if strings.HasPrefix(key, l.cut) {
				return nil
			}
			id = key[strings.LastIndexByte(key, '.')+1:]
		}
		entries = append(entries, keptEntry{key, id, value, revision, own})
		return nil
	})
	return entries, err
}

// remember gives a the entries and forgets those of former cuts and streams that are old.
func (l *ledgerStore) remember(ctx context.Context, a *analyzer.Analyzer, entries []keptEntry) {
	var newest time.Time
	foreign, at := 0, make([]time.Time, len(entries))
	for i := range entries {
		e := &entries[i]
		own := e.own
		if own {
			l.revisions[e.key] = e.revision
		} else {
			foreign++
		}
		entry, err := ledger.Decode(e.id, e.value)
		if at[i] = entry.LastAt; at[i].After(newest) {
			newest = at[i]
		}
		if err == nil && own && entry.Last.Seq > l.last {
			own = false
		}
		if err := a.Remember(e.id, e.value, own); err != nil {
			l.logger.Warn("an entry of the ledger cannot be read and is left out", "key", e.key, "err", err)
		}
	}
	old := 0
	for i := range entries {
		if e := &entries[i]; !e.own && newest.Sub(at[i]) > ledgerLasts {
			if err := l.bucket.Purge(ctx, e.key, e.revision); err != nil {
				l.logger.Warn("an old entry of the ledger is not removed; the next start tries again", "key", e.key, "err", err)
				break
			}
			old++
		}
	}
	l.logger.Info("ledger read", "entries", len(entries)-foreign, "foreign", foreign, "removed", old)
}

// add takes what a step changed and returns the number of the step.
func (l *ledgerStore) add(changed []ledger.Entry, gone []ledger.Key) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if len(changed)+len(gone) > 0 {
		l.steps = append(l.steps, ledgerStep{l.count, changed, gone})
	}
	return l.count
}

// keep writes what the steps up to this number changed. Its error is one of sinks that says to try again.
func (l *ledgerStore) keep(ctx context.Context, step uint64) error {
	entries := l.upTo(step)
	g, write := errgroup.WithContext(ctx)
	g.SetLimit(ledgerWriters)
	for id, e := range entries {
		g.Go(func() error {
			one, cancel := context.WithTimeout(write, ledgerTimeout)
			defer cancel()
			if e == nil {
				return l.forget(one, l.own+id)
			}
			return l.write(one, l.own+id, id, *e)
		})
	}
	if err := g.Wait(); err != nil {
		if errors.Is(err, jetstream.ErrClosed) {
			return fmt.Errorf("keep %d entries of the ledger: %w", len(entries), err)
		}
		return &sinks.RetryError{Err: fmt.Errorf("keep %d entries of the ledger: %w", len(entries), err), Hint: ledgerHint}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.steps) > 0 && l.steps[0].number <= step {
		l.steps = l.steps[1:]
	}
	return nil
}

// upTo is what is to be written under each id; nil is an entry that is gone.
func (l *ledgerStore) upTo(step uint64) map[string]*ledger.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := map[string]*ledger.Entry{}
	for i := range l.steps {
		s := &l.steps[i]
		if s.number > step {
			break
		}
		for j := range s.gone {
			entries[s.gone[j].String()] = nil
		}
		for j := range s.changed {
			entries[s.changed[j].String()] = &s.changed[j]
		}
	}
	return entries
}

// write sets key to e, merged with what another process wrote there since.
func (l *ledgerStore) write(ctx context.Context, key, id string, e ledger.Entry) error {
	for {
		value, err := json.Marshal(&e)
		if err != nil {
			return fmt.Errorf("encode ledger entry %s: %w", key, err)
		}
		revision, err := l.bucket.Update(ctx, key, value, l.revision(key))
		if err == nil {
			l.setRevision(key, revision)
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyConflict) {
			return err
		}
		there, revision, err := l.bucket.Get(ctx, key)
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return err
		}
		l.setRevision(key, revision) // 0 when it does not exist
		if err != nil {
			continue
		}
		if other, err := ledger.Decode(id, there); err == nil {
			e = e.Merge(&other)
			if same, err := json.Marshal(&e); err == nil && string(same) == string(there) {
				return nil // by this process, whose answer was lost, or by one that is further
			}
		}
	}
}

func (l *ledgerStore) forget(ctx context.Context, key string) error {
	revision := l.revision(key)
	if revision == 0 {
		return nil
	}
	if err := l.bucket.Purge(ctx, key, revision); err != nil {
		return err
	}
	l.setRevision(key, 0)
	return nil
}

func (l *ledgerStore) revision(key string) uint64 {
	l.mrev.Lock()
	defer l.mrev.Unlock()
	return l.revisions[key]
}

func (l *ledgerStore) setRevision(key string, revision uint64) {
	l.mrev.Lock()
	defer l.mrev.Unlock()
	if revision == 0 {
		delete(l.revisions, key)
		return
	}
	l.revisions[key] = revision
}
