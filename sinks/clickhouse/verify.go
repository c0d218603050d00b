package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// VerifyConfig configures Verify.
type VerifyConfig struct {
	Config                 // the server or cluster to verify, as llmtap would use it
	ScratchDatabase string // created for the verification; if empty, the database of the DSN with the suffix _verify
	Keep            bool   // keep the scratch database
	Queries         []VerifyQuery
	Wait            time.Duration // limit for replication

	Started func(step string) // called when a step starts
	Done    func(VerifyStep)  // called with the result of each step
}

// A VerifyQuery is a statement that must run.
type VerifyQuery struct {
	Name, SQL string
	Params    map[string]string
}

// A VerifyStatus is the status of a step.
type VerifyStatus string

// The statuses of a step.
const (
	VerifyOK      VerifyStatus = "ok"
	VerifyWarning VerifyStatus = "warn" // llmtap works, but the set-up should be changed
	VerifyFailed  VerifyStatus = "fail"
	VerifySkipped VerifyStatus = "skip" // not tried
)

// A VerifyStep is the result of one step.
type VerifyStep struct {
	Name     string       `json:"step"`
	Status   VerifyStatus `json:"status"`
	Detail   string       `json:"detail"`
	Fix      string       `json:"fix,omitempty"` // action required from an operator
	Duration float64      `json:"duration"`      // seconds
}

// A Verification is the result of Verify.
type Verification struct {
	Status   VerifyStatus `json:"status"` // ok, warn or fail
	Version  string       `json:"version,omitempty"`
	Database string       `json:"database"` // scratch database
	Cluster  string       `json:"cluster,omitempty"`
	Shards   int          `json:"shards,omitempty"`
	Replicas int          `json:"replicas,omitempty"` // of all shards
	Steps    []VerifyStep `json:"steps"`
}

// VerifyWait is the default of VerifyConfig.Wait.
const VerifyWait = time.Minute

// stepTimeout limits a step, in addition to its waits. A statement ON CLUSTER may take 3 minutes before ClickHouse gives up.
const stepTimeout = 5 * time.Minute

// verifyRows is the number of rows per table in one batch; a cluster of many shards needs more for each to have some.
const (
	verifyRows         = 240
	verifyRowsPerShard = 60
)

// A verifier executes the steps of Verify.
//
//	connection ─> privileges, user ─> cluster ─> database ─> schema, existing tables ─> write
//	           ─> shards, replicas ─> queries ─> erase ─> drop
//
// What only depends on the version of ClickHouse, such as TTL and the use of indexes, is tested with each release instead.
type verifier struct {
	cfg     VerifyConfig
	options *clickhouse.Options // of the DSN
	result  *Verification
	failed  map[string]bool // steps that failed or were skipped
	sink    *Sink           // on the scratch database; nil until the schema exists

	admin    driver.Conn // connected to the database default
	cluster  string      // name of the cluster, with macros replaced
	replicas []replica
	created  bool // the scratch database was created
	start    time.Time
	rows     int // rows per table
}

// A verifyAction is a step to execute. It is skipped if one of the steps that it needs was not successful.
type verifyAction struct {
	name  string
	needs []string
	run   func(context.Context) outcome
}

// An outcome is the result of a verifyAction.
type outcome struct {
	status      VerifyStatus
	detail, fix string
}

func okf(format string, args ...any) outcome {
	return outcome{status: VerifyOK, detail: fmt.Sprintf(format, args...)}
}

func skipf(format string, args ...any) outcome {
	return outcome{status: VerifySkipped, detail: fmt.Sprintf(format, args...)}
}

func failf(fix, format string, args ...any) outcome {
	return outcome{VerifyFailed, fmt.Sprintf(format, args...), fix}
}

func warnf(fix, format string, args ...any) outcome {
	return outcome{VerifyWarning, fmt.Sprintf(format, args...), fix}
}

// Verify uses a server or cluster as llmtap does, in a database that it creates and drops, and reports which steps work. Its
// error is an invalid configuration.
func Verify(ctx context.Context, cfg VerifyConfig) (*Verification, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	cfg.Wait = cmp.Or(cfg.Wait, VerifyWait)
	cfg.Retention, cfg.MessagesRetention, cfg.TableRetention = 0, 0, nil // rows have times in the past
	database := cmp.Or(cfg.ScratchDatabase, cmp.Or(o.Auth.Database, "default")+"_verify")
	if database == o.Auth.Database {
		return nil, fmt.Errorf("the database to verify in, %s, is the database of the DSN: choose one that does not exist", database)
	}
	v := &verifier{
		cfg: cfg, options: o, failed: map[string]bool{}, start: time.Now().UTC().Add(-30 * time.Minute), rows: verifyRows,
		result: &Verification{Status: VerifyOK, Database: database, Cluster: cfg.Cluster},
	}
	defer v.close()
	for _, a := range v.actions() {
		v.execute(ctx, a)
	}
	// An interrupted verification must not leave a database.
	v.execute(context.WithoutCancel(ctx), verifyAction{name: "drop", run: v.drop})
	return v.result, nil
}

func protocolName(p clickhouse.Protocol) string {
	if p == clickhouse.HTTP {
		return "http"
	}
	return "native"
}

// actions returns the steps in order, except for the last one, drop.
func (v *verifier) actions() []verifyAction {
	all := []verifyAction{
		{"connection", nil, v.connection},
		{"privileges", []string{"connection"}, v.privileges},
		{"user", []string{"connection"}, v.user},
		{"cluster", []string{"connection"}, v.checkCluster},
		{"database", []string{"connection", "cluster"}, v.createDatabase},
		{"schema", []string{"database"}, v.schema},
		{"existing tables", []string{"schema"}, v.existingTables},
		{"write", []string{"schema"}, v.write},
		{"shards", []string{"write"}, v.shards},
		{"replicas", []string{"write"}, v.compareReplicas},
		{"queries", []string{"write"}, v.queries},
		{"erase", []string{"write"}, v.erase},
	}
	if v.cfg.Cluster == "" {
		return slices.DeleteFunc(all, func(a verifyAction) bool { return a.name == "shards" || a.name == "replicas" })
	}
	return all
}

// execute executes a step and adds its result.
func (v *verifier) execute(ctx context.Context, a verifyAction) {
	v.cfg.Started(a.name)
	begin := time.Now()
	var out outcome
	blocked := slices.IndexFunc(a.needs, func(name string) bool { return v.failed[name] })
	switch {
	case ctx.Err() != nil:
		out = skipf("interrupted")
	case blocked >= 0:
		out = skipf("requires the step %s", a.needs[blocked])
	default:
		stepCtx, cancel := context.WithTimeout(ctx, stepTimeout+v.cfg.Wait)
		out = a.run(stepCtx)
		cancel()
	}
	v.failed[a.name] = out.status == VerifyFailed || out.status == VerifySkipped && a.name != "cluster"
	switch {
	case out.status == VerifyFailed:
		v.result.Status = VerifyFailed
	case out.status == VerifyWarning && v.result.Status == VerifyOK:
		v.result.Status = VerifyWarning
	}
	step := VerifyStep{a.name, out.status, out.detail, out.fix, time.Since(begin).Seconds()}
	v.result.Steps = append(v.result.Steps, step)
	v.cfg.Done(step)
}

// close closes the connections.
func (v *verifier) close() {
	if v.sink != nil {
		_ = v.sink.Close() // all writes have been acknowledged
	}
	if v.admin != nil {
		_ = v.admin.Close()
	}
}

// topology returns the topology of the tables that are verified.
func (v *verifier) topology() topology {
	return topology{cluster: v.cfg.Cluster, database: v.result.Database}
}

// openSink returns a Sink on the scratch database.
func (v *verifier) openSink(ctx context.Context) (*Sink, error) {
	o := *v.options
	o.Auth.Database = v.result.Database
	s, err := newSink(&o, v.cfg.Config, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// until calls f until it is done or has an error, or the wait for the servers has ended. It returns the time that it took.
func (v *verifier) until(ctx context.Context, f func() (done bool, err error)) (time.Duration, bool, error) {
	begin := time.Now()
	pause := 50 * time.Millisecond
	for {
		done, err := f()
		took := time.Since(begin)
		if done || err != nil || took > v.cfg.Wait {
			return took, done, err
		}
		select {
		case <-ctx.Done():
			return took, false, ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

// list formats names for a sentence.
func list(names []string) string { return strings.Join(names, ", ") }

// plural formats a number with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
