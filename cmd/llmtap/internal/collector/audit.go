package collector

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/sinks"
)

const (
	// auditQueue bounds the records that wait for the batch, which is full while ClickHouse does not answer.
	auditQueue = 1000
	// digestSize is the size of the hash of a configuration in a record, in bytes.
	digestSize   = 8
	viaCollector = "collector"
)

// An audit writes who did what to the log, and as rows to ClickHouse.
//
//	access.Mux ──> record ──> log: one line, message audit
//	                 └──────> queue ──> Batcher ──> table audit
//
// A request never waits for it: a record that finds the queue full is only in the log, and is counted.
type audit struct {
	queue   chan sinks.AuditEntry // never closed; nil: the process stores nothing
	dropped prometheus.Counter
	told    atomic.Int64 // Unix time of the last message about drops
	logger  *slog.Logger
}

func newAudit(logger *slog.Logger, stores bool, reg prometheus.Registerer) *audit {
	if !stores {
		return &audit{logger: logger}
	}
	return &audit{queue: make(chan sinks.AuditEntry, auditQueue), logger: logger, dropped: promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Name: "llmtap_sinks_audit_dropped_total", Help: "Records of the audit that are only in the log, because ClickHouse did not take them in time.",
	})}
}

// record implements access.Hooks.Record.
func (a *audit) record(r access.Record) {
	a.logger.Info("audit", "id", r.ID, "at", r.At, "person", r.Person, "verified", r.Verified, "subject", r.Subject, "role", r.Role.String(), "action", string(r.Action),
		"target", r.Target, "detail", r.Detail, "route", r.Route, "via", r.Via, "address", r.Address, "outcome", r.Outcome, "status", r.Status)
	if a.queue == nil {
		return
	}
	select {
	case a.queue <- AuditRow(r):
	default:
		a.drop(1)
	}
}

// drop counts lost rows, and says so at most once in a logInterval.
func (a *audit) drop(n int) {
	a.dropped.Add(float64(n))
	now := time.Now().Unix()
	if last := a.told.Load(); now-last >= int64(logInterval.Seconds()) && a.told.CompareAndSwap(last, now) {
		a.logger.Error("records of the audit are only in the log", "reason", "ClickHouse does not take them", "count", "metric llmtap_sinks_audit_dropped_total")
	}
}

// run stores records until ctx ends.
func (a *audit) run(ctx context.Context, rows *sinks.Batcher) {
	ended := make(chan error, 1)
	go func() { ended <- rows.Run(ctx) }()
	for {
		select {
		case row := <-a.queue:
			if rows.Add(ctx, &sinks.Batch{Audit: []sinks.AuditEntry{row}}, nil) != nil {
				a.drop(1)
			}
		case err := <-ended:
			if err != nil {
				a.logger.Error("records of the audit are only in the log", "err", err)
			}
			if n := len(a.queue); n > 0 {
				a.drop(n)
			}
			return
		}
	}
}

// AuditRow returns the row of a record.
func AuditRow(r access.Record) sinks.AuditEntry {
	return sinks.AuditEntry{
		ID: r.ID, At: r.At, Person: r.Person, Verified: r.Verified, Subject: r.Subject, Role: r.Role.String(), Action: string(r.Action), Target: r.Target, Detail: r.Detail,
		Route: r.Route, Via: r.Via, Address: r.Address, Outcome: r.Outcome, Status: r.Status,
	}
}

// configured records that this process has started with its configuration, whose secrets are not in the digest.
func (c *Collector) configured() access.Record {
	h := sha256.New()
	for _, k := range c.cfg.Keys() {
		fmt.Fprintln(h, k.Path, k)
	}
	return access.Record{
		Person: silences.Author(os.Getenv), Role: access.Admin, Action: access.Configure, Target: fmt.Sprintf("%x", h.Sum(nil)[:digestSize]),
		Detail: "start of " + c.opts.Version + " with the roles " + strings.Join(c.cfg.Roles, ", "), Route: "llmtap up", Via: viaCollector, Outcome: access.Done,
	}.Complete(time.Now())
}
