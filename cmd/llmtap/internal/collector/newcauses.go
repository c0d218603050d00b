package collector

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// newCauses removes from tallies the counts of causes that are new for their partition, but not for the fleet.
//
// Each partition has a ledger of its own, so that its output is a function of its own events. With N partitions, a cause that is
// new for the fleet is therefore counted by up to N of them, and a cause that one partition has known for weeks is counted when
// it occurs in another. A reader of tallies sees those of all partitions: it keeps one count, of the partition that had the cause
// first. That partition may count the cause again, because its ledger is bounded; so a single partition is never filtered.
//
//	ledgers of all partitions, once ──> known <──> tallies
//
// It is used by one goroutine.
type newCauses struct {
	known map[cause]origin
}

// A cause is what a ledger remembers of a failure, without its environment.
type cause struct{ service, stage, cause, rootCause string }

// An origin is the first known occurrence of a cause.
type origin struct {
	partition int
	second    int64
	counted   bool // by a tally
}

func newNewCauses() *newCauses { return &newCauses{known: map[cause]origin{}} }

// load reads the causes in the ledgers. Without them, a cause may be counted as new once more, so an error is only logged.
func (n *newCauses) load(ctx context.Context, conn *jetstream.Conn, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, ledgerReadTimeout)
	defer cancel()
	kv, err := conn.KV(ctx, event.BucketLedger)
	if err == nil {
		err = kv.Each(ctx, func(key string, value []byte, _ uint64) error {
			part := strings.Split(key, ".") // stream, partitions, partition, entry
			if len(part) != 4 {
				return nil
			}
			partition, err := strconv.Atoi(part[2])
			if err != nil {
				return nil
			}
			if e, err := ledger.Decode(part[3], value); err == nil && e.Kind == ledger.KindFailure {
				n.add(cause{e.Service, e.Stage, e.Name, e.RootCause}, origin{partition: partition, second: e.First.At.Unix()})
			}
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		logger.Warn("cannot read which causes are known; with several partitions, they may be reported as new again", "err", err, "hint", ledgerHint)
	}
}

// add adds an occurrence in a ledger.
func (n *newCauses) add(c cause, o origin) {
	if old, ok := n.known[c]; !ok || o.second < old.second {
		n.known[c] = o
	}
}

// filter removes the counts of causes that another partition has counted, or had in an earlier second.
func (n *newCauses) filter(t *analyzer.Tally) {
	t.Counts = slices.DeleteFunc(t.Counts, func(c analyzer.Count) bool {
		if c.Metric != analyzer.MetricNew || c.Labels["service"] == "other" {
			return false
		}
		k := cause{c.Labels["service"], c.Labels["stage"], c.Labels["cause"], c.Labels["root_cause"]}
		if o, ok := n.known[k]; ok && o.partition != t.Partition && (o.counted || o.second < t.Second) {
			return true
		}
		n.known[k] = origin{t.Partition, t.Second, true}
		return false
	})
}
