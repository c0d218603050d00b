package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

	Done func(VerifyStep) // called with the result of each step
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
)

// A VerifyStep is the result of one step.
type VerifyStep struct {
	Name   string
	Status VerifyStatus
	Detail string
	Fix    string // action required from an operator
	Took   time.Duration
}

// replicationWait limits the wait for replication.
const replicationWait = 2 * time.Minute

// stepTimeout limits a step. A statement ON CLUSTER may take 3 minutes before ClickHouse gives up.
const stepTimeout = 5*time.Minute + replicationWait

// verifyRows is the number of rows per table in one batch; a cluster of many shards needs more for each to have some.
const (
	verifyRows         = 240
	verifyRowsPerShard = 60
)

// A verifier executes the steps of Verify.
//
//	connection ─> cluster ─> privileges ─> database ─> schema ─> write ─> shards, replicas ─> queries ─> erase ─> drop
//
// What only depends on the version of ClickHouse, such as TTL and the use of indexes, is tested with each release instead.
type verifier struct {
	cfg      VerifyConfig
	options  *clickhouse.Options // of the DSN
	database string              // the scratch database
	sink     *Sink               // on the scratch database; nil until the schema exists

	admin    driver.Conn // connected to the database default
	cluster  string      // name of the cluster, with macros replaced
	replicas []replica
	created  bool // the scratch database was created

	start time.Time
	rows  int // rows per table
}

// A verifyAction is a step to execute.
type verifyAction struct {
	name string
	run  func(context.Context) VerifyStep
}

func okf(format string, args ...any) VerifyStep {
	return VerifyStep{Status: VerifyOK, Detail: fmt.Sprintf(format, args...)}
}

func failf(fix, format string, args ...any) VerifyStep {
	return VerifyStep{Status: VerifyFailed, Detail: fmt.Sprintf(format, args...), Fix: fix}
}

func warnf(fix, format string, args ...any) VerifyStep {
	return VerifyStep{Status: VerifyWarning, Detail: fmt.Sprintf(format, args...), Fix: fix}
}

// Verify uses a server or cluster as llmtap does, in a database that it creates and drops. It stops at the first step that
// fails. Its error is an invalid configuration, or that of ctx.
func Verify(ctx context.Context, cfg VerifyConfig) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	o, err := cfg.options()
	if err != nil {
		return err
	}
	cfg.Retention, cfg.MessagesRetention, cfg.TableRetention = 0, 0, nil // rows have times in the past
	o.Auth.Database = cmp.Or(o.Auth.Database, "default")
	database := cmp.Or(cfg.ScratchDatabase, o.Auth.Database+"_verify")
	if database == o.Auth.Database {
		return fmt.Errorf("the database to verify in, %s, is the database of the DSN: choose one that does not exist", database)
	}
	v := &verifier{cfg: cfg, options: o, database: database, start: time.Now().UTC().Add(-30 * time.Minute), rows: verifyRows}
	defer v.close()
	for _, a := range v.actions() {
		if ctx.Err() != nil || !v.execute(ctx, a) {
			break
		}
	}
	if v.created {
		// An interrupted verification must not leave a database.
		v.execute(context.WithoutCancel(ctx), verifyAction{"drop", v.drop})
	}
	return ctx.Err()
}

// actions returns the steps in order, except for the last one, drop.
func (v *verifier) actions() []verifyAction {
	cluster := v.cfg.Cluster != ""
	all := []verifyAction{{"connection", v.connection}}
	if cluster {
		all = append(all, verifyAction{"cluster", v.checkCluster})
	}
	all = append(all, verifyAction{"privileges", v.privileges}, verifyAction{"database", v.createDatabase}, verifyAction{"schema", v.schema}, verifyAction{"write", v.write})
	if cluster {
		all = append(all, verifyAction{"shards", v.shards}, verifyAction{"replicas", v.compareReplicas})
	}
	return append(all, verifyAction{"queries", v.queries}, verifyAction{"erase", v.erase})
}

// execute executes a step, reports it, and returns whether it did not fail.
func (v *verifier) execute(ctx context.Context, a verifyAction) bool {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	step := a.run(ctx)
	step.Name, step.Took = a.name, time.Since(begin)
	v.cfg.Done(step)
	return step.Status != VerifyFailed
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
	return topology{cluster: v.cfg.Cluster, database: v.database}
}

// openSink returns a Sink on the scratch database.
func (v *verifier) openSink(ctx context.Context) (*Sink, error) {
	o := *v.options
	o.Auth.Database = v.database
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
		if done || err != nil || took > replicationWait {
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
