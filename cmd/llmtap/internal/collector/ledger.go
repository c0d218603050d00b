package collector

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

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/sinks"
)

const (
	ledgerWriters     = 16               // concurrent writes
	ledgerTimeout     = 5 * time.Second  // timeout of one write
	ledgerReadTimeout = 30 * time.Second // timeout of reading all entries
	ledgerRetry       = time.Second      // time between attempts to read
	ledgerHint        = "the checkpoint waits and nothing is lost; check NATS and its bucket " + event.BucketLedger

	// ledgerRetention is the retention of entries that belong to a former stream or a former number of partitions.
	ledgerRetention = 60 * 24 * time.Hour
)

// A ledgerStore stores the ledger of an analyzer, with one key per entry:
//
//	<stream>.<partitions>.<partition>.<entry>
//
// The stream and its number of partitions are part of the key because sequences are valid only within them. When a
// partition starts, it adopts the entries of other streams or numbers of partitions as foreign entries. It ignores the
// entries of the other current partitions.
//
//	step 1 ── add ─┐          ┌─ write: the entries of the batch's steps, by compare-and-set;
//	step 2 ── add ─┼─ batch ──┤         concurrent writes of another process are merged
//	step 3 ── add ─┘  stored  └─ checkpoint
//
// An entry is written after the rows of its step are stored and before the checkpoint moves past it. Therefore, a process
// that dies leaves entries ahead of its checkpoint, never behind it, and an analyzer counts nothing twice. A process that
// has lost the partition without noticing computes the same entries as the new owner, but at an earlier sequence, so its
// entries lose the merge.
type ledgerStore struct {
	conn   *jetstream.Conn
	layout string // prefix of the keys of this stream and number of partitions
	own    string // prefix of the keys of this partition
	last   uint64 // last sequence of the stream; entries beyond it describe events that the stream has lost
	logger *slog.Logger

	mu    sync.Mutex // guards steps and count
	steps []ledgerStep
	count uint64 // steps added

	kv        *jetstream.KV // assigned by load
	revisions sync.Map      // revisions of the existing keys
}

// A ledgerStep contains the changes of one step of the analyzer.
type ledgerStep struct {
	number  uint64
	changed []ledger.Entry
	removed []ledger.Key
}

// newLedger returns the ledger of partition p of n. reader is the reader of the partition.
func newLedger(conn *jetstream.Conn, p, n int, reader *jetstream.Reader, logger *slog.Logger) *ledgerStore {
	created, last := reader.Stream()
	layout := strconv.FormatInt(created.UnixNano(), 36) + "." + strconv.Itoa(n) + "."
	return &ledgerStore{
		conn: conn, layout: layout, own: layout + strconv.Itoa(p) + ".", last: last, logger: logger,
	}
}

// load restores the ledger of a. It retries until it succeeds or ctx ends, because an analyzer without its ledger would
// report old defects as new ones.
func (l *ledgerStore) load(ctx context.Context, a *analyzer.Analyzer) error {
	entries, err := backoff.Retry(ctx, func() ([]storedEntry, error) {
		ctx, cancel := context.WithTimeout(ctx, ledgerReadTimeout)
		defer cancel()
		return l.read(ctx)
	}, backoff.WithBackOff(backoff.NewConstantBackOff(ledgerRetry)), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		l.logger.Warn("cannot read the ledger, retrying; analysis waits for it", "err", err, "hint", ledgerHint)
	}))
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	l.restore(ctx, a, entries)
	return nil
}

// A storedEntry is an entry in the bucket.
type storedEntry struct {
	key      string // key in the bucket
	id       string // key without the prefix
	value    []byte
	revision uint64
	own      bool // belongs to this partition
}

// read reads all entries except the entries of the other current partitions.
func (l *ledgerStore) read(ctx context.Context) (entries []storedEntry, err error) {
	if l.kv, err = l.conn.KV(ctx, event.BucketLedger); err != nil {
		return nil, err
	}
	err = l.kv.Each(ctx, func(key string, value []byte, revision uint64) error {
		id, own := strings.CutPrefix(key, l.own)
		if !own {
			if strings.HasPrefix(key, l.layout) {
				return nil
			}
			id = key[strings.LastIndexByte(key, '.')+1:]
		}
		entries = append(entries, storedEntry{key, id, value, revision, own})
		return nil
	})
	return entries, err
}

// restore passes entries to a and deletes expired foreign ones.
func (l *ledgerStore) restore(ctx context.Context, a *analyzer.Analyzer, entries []storedEntry) {
	var newest time.Time
	foreign, at := 0, make([]time.Time, len(entries))
	for i := range entries {
		e := &entries[i]
		own := e.own
		if own {
			l.setRevision(e.key, e.revision)
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
			l.logger.Warn("skipping unreadable ledger entry", "key", e.key, "err", err)
		}
	}
	expired := 0
	for i := range entries {
		if e := &entries[i]; !e.own && newest.Sub(at[i]) > ledgerRetention {
			if err := l.kv.Purge(ctx, e.key, e.revision); err != nil {
				l.logger.Warn("could not delete an expired ledger entry; the next start retries", "key", e.key, "err", err)
				break
			}
			expired++
		}
	}
	l.logger.Info("ledger read", "entries", len(entries)-foreign, "foreign", foreign, "deleted", expired)
}

// add adds the changes of a step and returns the number of the step.
func (l *ledgerStore) add(changed []ledger.Entry, removed []ledger.Key) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if len(changed)+len(removed) > 0 {
		l.steps = append(l.steps, ledgerStep{l.count, changed, removed})
	}
	return l.count
}

// write writes the changes of the steps up to step. The error is a *sinks.RetryError unless NATS is closed.
func (l *ledgerStore) write(ctx context.Context, step uint64) error {
	entries := l.changes(step)
	err := l.writeAll(ctx, entries, false)
	if err == nil {
		err = l.writeAll(ctx, entries, true)
	}
	if err != nil {
		err = fmt.Errorf("write %d ledger entries: %w", len(entries), err)
		switch {
		case errors.Is(err, jetstream.ErrClosed):
			return err
		case jetstream.IsTransient(err) && !l.deleted(ctx):
			return &sinks.RetryError{Err: err} // NATS comes back, or elects a leader, by itself
		}
		return &sinks.RetryError{Err: err, Hint: ledgerHint}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.steps) > 0 && l.steps[0].number <= step {
		l.steps = l.steps[1:]
	}
	return nil
}

// writeAll writes the entries of versions, or the others.
func (l *ledgerStore) writeAll(ctx context.Context, entries map[string]*ledger.Entry, versions bool) error {
	g, write := errgroup.WithContext(ctx)
	g.SetLimit(ledgerWriters)
	for id, e := range entries {
		if versions != (e != nil && e.Kind == ledger.KindVersion) {
			continue
		}
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(write, ledgerTimeout)
			defer cancel()
			if e == nil {
				return l.deleteEntry(ctx, l.own+id)
			}
			return l.writeEntry(ctx, l.own+id, id, *e)
		})
	}
	return g.Wait()
}

// deleted reports whether the bucket does not exist. A request to it then fails as it does without a leader.
func (l *ledgerStore) deleted(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	_, err := l.conn.KV(ctx, event.BucketLedger)
	return errors.Is(err, jetstream.ErrNoBucket)
}

// changes returns the last change of each entry id in the steps up to step; nil means that the entry was removed.
func (l *ledgerStore) changes(step uint64) map[string]*ledger.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries := map[string]*ledger.Entry{}
	for i := range l.steps {
		s := &l.steps[i]
		if s.number > step {
			break
		}
		for j := range s.removed {
			entries[s.removed[j].String()] = nil
		}
		for j := range s.changed {
			entries[s.changed[j].String()] = &s.changed[j]
		}
	}
	return entries
}

// writeEntry sets key to e, merged with concurrent writes of other processes.
func (l *ledgerStore) writeEntry(ctx context.Context, key, id string, e ledger.Entry) error {
	for {
		value, err := json.Marshal(&e)
		if err != nil {
			return fmt.Errorf("encode ledger entry %s: %w", key, err)
		}
		revision, err := l.kv.Update(ctx, key, value, l.revision(key))
		if err == nil {
			l.setRevision(key, revision)
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyConflict) {
			return err
		}
		stored, revision, err := l.kv.Get(ctx, key)
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return err
		}
		l.setRevision(key, revision) // 0 if the key does not exist
		if err != nil {
			continue
		}
		if other, err := ledger.Decode(id, stored); err == nil {
			e = e.Merge(&other)
			if merged, err := json.Marshal(&e); err == nil && string(merged) == string(stored) {
				return nil // written by this process (the acknowledgement was lost), or by a process at a later sequence
			}
		}
	}
}

func (l *ledgerStore) deleteEntry(ctx context.Context, key string) error {
	revision := l.revision(key)
	if revision == 0 {
		return nil
	}
	if err := l.kv.Purge(ctx, key, revision); err != nil {
		return err
	}
	l.setRevision(key, 0)
	return nil
}

// revision returns the revision of a key, or 0 if the key does not exist.
func (l *ledgerStore) revision(key string) uint64 {
	v, _ := l.revisions.Load(key)
	revision, _ := v.(uint64)
	return revision
}

func (l *ledgerStore) setRevision(key string, revision uint64) {
	if revision == 0 {
		l.revisions.Delete(key)
	} else {
		l.revisions.Store(key, revision)
	}
}
