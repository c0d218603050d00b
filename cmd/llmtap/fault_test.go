package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var (
	allFaults = flag.String("faults", "short", "faults of TestFaults: all or short")
	faultHold = flag.Duration("fault-hold", 0, "duration of the faults of TestFaults that have one; 0: that of each fault")
	faultRate = flag.Int("fault-rate", 0, "exchanges per second of the agents; 0: 100 with -slow, and else 20")
)

const (
	// shortHold is the longest duration of a fault without -faults all.
	shortHold = 5 * time.Second
	// maxFaultRSS is the memory limit of a collector with embedded NATS while its store is down and while it catches up.
	maxFaultRSS = 400 << 20
	// recoverWithin is the time within which new calls are stored again after a fault.
	recoverWithin = 2 * time.Minute
	// alertWithin is the time within which Slack has the first message about a burst, after the end of a fault. After a clock has jumped
	// by an hour or more, an hour of steps is evaluated first.
	alertWithin = 6 * time.Minute
	// alertSettles is the time for which a second message about a burst is awaited.
	alertSettles = 3 * time.Second
)

// A fault is one row of the table of TestFaults.
type fault struct {
	name  string
	short bool // also without -faults all
	// times is the number of strikes, 1 if it is 0; without -faults all, at most two. The burst begins at the last one.
	times int
	hold  time.Duration // time from a strike to its end
	start func(r *faultRun)
	// strike breaks something and returns what ends the fault; nil if nothing does, because strike waits for it.
	strike func(r *faultRun) (mend func())
	// check verifies what is special about the fault; it may be nil.
	check func(r *faultRun)

	drops   bool   // the hooks drop exchanges, which are counted
	says    string // in the log of the first collector
	forgets bool   // tallies are not compared: the clock of NATS jumps over their age, and over the timeout of calls in flight
	damages bool   // the disk loses messages: they are counted, and rows of other calls may lack what they knew from them
	outage  bool   // memory is bounded by maxFaultRSS, and alerts do not wait for the end of the fault
}

// faults are the rows in the order of the table. A fault that is added here is run and printed.
var faults = slices.Concat(processFaults, natsFaults, clusterFaults, storeFaults, readerFaults, clockFaults, hookFaults, damageFaults)

// A faultRun is collectors under load, with a Slack and the servers of one fault.
type faultRun struct {
	*testing.T
	fault *fault

	slack        *slack.Server
	config       string // file
	natsURL      string // of the agents
	natsSettings string // further ones of the collectors
	audited      string // NATS URL of the audit, if it differs
	rows         *store
	ups          []*upProcess
	nats         *natsProcess // nil unless it is separate and single
	cluster      *natsCluster // nil unless there is one
	engineDir    string       // of a ClickHouse outside of the collectors
	shift        atomic.Int64 // of the hooks' clock, a time.Duration
	proxy        *tcpProxy    // nil unless there is one

	load     *agentsProcess
	acked    []string            // of agents that have ended
	dropped  uint64              // by hooks, exchanges
	before   map[string]string   // exchanges of the events in the stream before it was damaged, by message id
	unread   map[string]bool     // events of before that were not stored
	parts    map[string][]string // exchanges in each part of ClickHouse's table before it was damaged
	rotten   []string            // exchanges in the damaged part
	expected map[string]bool     // exchanges of which the disk lost a message; nil unless the fault damages
	counted  uint64              // the same, as the collector counts them
	lost     uint64              // events that the disk lost before they were read

	burst          time.Time // when the burst began
	struck, mended time.Time // of the last strike
	result         *audit
	queryable      []time.Duration // from each end of the fault to new rows
	alerts         map[string]int  // messages about the burst, by alert
	alerted        time.Time       // first of them
}

// head is the header of the table.
var head = []string{"fault", "acknowledged", "events in frames", "stored", "lost", "double", "differences", "in tallies", "burst notified", "rows after", "alert after", "remarks"}

// Every acknowledged exchange is stored once, with the findings, tool calls, ledger and tallies of an undisturbed run, and a burst
// that begins during a fault is notified once.
//
//	go test ./cmd/llmtap -run TestFaults -faults all -slow -v -timeout 60m
//	go test ./cmd/llmtap -run 'TestFaults/ClickHouse_refuses' -faults all -slow -fault-hold 10m -v -timeout 60m
func TestFaults(t *testing.T) {
	needClickHouse(t)
	if *faultRate == 0 {
		*faultRate = max(20, slowtest.Tenth(t, 100))
	}
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	t.Parallel()
	rows := make([][]string, len(faults))
	t.Cleanup(func() {
		t.Log("\n" + columns(append([][]string{head}, rows...)))
	})
	for i, f := range faults {
		if *allFaults != "all" && !f.short {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			rows[i] = []string{f.name, "not completed"}
			rows[i] = f.run(t)
		})
	}
}

// run runs the fault and returns its row of the table.
func (f *fault) run(t *testing.T) []string {
	r := newFaultRun(t, f)
	f.start(r)
	r.startLoad()
	r.rows.waitNewer(t, time.Now(), 5*time.Minute)
	var rss *rssWatch
	if f.outage {
		rss = watchRSS(t, r.up().cmd.Process.Pid)
	}
	times := max(f.times, 1)
	if *allFaults != "all" {
		times = min(times, 2)
	}
	for n := range times {
		time.Sleep(time.Duration(n*370%1500) * time.Millisecond) // at any time between two batches
		r.strike(n == times-1)
		if n%4 == 2 && n < times-1 {
			continue // strike again while it recovers
		}
		r.queryable = append(r.queryable, r.rows.waitNewer(t, r.mended, recoverWithin+f.held()))
	}
	r.awaitAlert()
	if f.damages {
		r.awaitLosses()
	}
	r.stopLoad()
	r.audit()
	r.countMessages()
	must.Contain(t, r.up().stderr.String(), f.says, "log of the collector")
	if rss != nil && rss.peak.Load() > maxFaultRSS {
		t.Errorf("peak memory of the collector: %d MB", rss.peak.Load()>>20)
	}
	if f.check != nil {
		f.check(r)
	}
	return r.row()
}

func (f *fault) held() time.Duration {
	switch {
	case f.hold > 0 && *faultHold > 0:
		return *faultHold
	case *allFaults != "all":
		return min(f.hold, shortHold)
	}
	return f.hold
}

func newFaultRun(t *testing.T, f *fault) *faultRun {
	r := &faultRun{T: t, fault: f, slack: slack.New(slack.Config{Channels: []string{"oncall"}}), alerts: map[string]int{}}
	srv := httptest.NewServer(r.slack)
	t.Cleanup(srv.Close)
	r.config = filepath.Join(t.TempDir(), "llmtap.yaml")
	r.configure("slack: {token: xoxb-test, channel: '#oncall', api_url: '%s/api/'}", srv.URL)
	t.Cleanup(func() {
		if r.rows != nil {
			r.rows.close()
		}
		if t.Failed() {
			for i, u := range r.ups {
				t.Logf("collector %d:\n%s", i, u.stderr.String())
			}
		}
	})
	return r
}

// configure appends a line to the configuration file.
func (r *faultRun) configure(format string, args ...any) {
	r.Helper()
	f, err := os.OpenFile(r.config, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, format+"\n", args...)
		err = errors.Join(err, f.Close())
	}
	must.Do(r, err)
}

// up returns the collector, or the first one.
func (r *faultRun) up() *upProcess { return r.ups[0] }

// strike strikes, with a burst that begins during the fault if it is the last strike.
func (r *faultRun) strike(last bool) {
	r.struck = time.Now()
	mend := r.fault.strike(r)
	if last {
		r.burst = time.Now()
		r.load.burst(r.T)
	}
	if mend != nil {
		time.Sleep(time.Until(r.struck.Add(r.fault.held())))
		if r.fault.outage && r.fault.held() >= 10*time.Second && last {
			if _, first := r.messages(); first.IsZero() {
				r.Errorf("no message about the burst during the outage\n%s", r.up().stderr.String())
			}
		}
		mend()
	}
	r.mended = time.Now()
}

func (r *faultRun) startLoad() {
	r.load = startLoad(r.T, ackingConfig{NATSURL: r.natsURL, Rate: *faultRate, MemoryLimit: r.fault.memoryLimit()})
}

// memoryLimit returns that of the hooks: the smallest one if they are to drop exchanges.
func (f *fault) memoryLimit() int64 {
	if f.drops {
		return 1 << 20
	}
	return 0
}

func (r *faultRun) stopLoad() {
	r.Helper()
	acked, report := r.load.end(r.T)
	r.ended(acked, report)
}

func (r *faultRun) ended(acked []string, report agents.Report) {
	r.Helper()
	r.acked = append(r.acked, acked...)
	if r.dropped += report.Dropped; report.Dropped > 0 && !r.fault.drops {
		r.Errorf("the hooks dropped %d exchanges", report.Dropped)
	}
}

func (r *faultRun) audit() {
	r.Helper()
	url := r.natsURL
	if r.audited != "" {
		url = r.audited
	}
	r.result = auditDamaged(r.T, url, r.rows, r.acked, r.expected, r.fault.forgets)
	r.result.check(r.T)
}

// messages returns the number of messages in Slack about the burst by alert, and when the first one was accepted.
func (r *faultRun) messages() (byAlert map[string]int, first time.Time) {
	byAlert = map[string]int{}
	for _, m := range r.slack.Messages() {
		if m.ThreadTS != "" || !strings.Contains(string(m.Blocks)+string(m.Attachments), burstService) {
			continue
		}
		if first.IsZero() {
			first = m.ReceivedAt
		}
		byAlert[title(m)]++
	}
	return byAlert, first
}

// title returns the alert that a message is about.
func title(m slack.Message) string {
	for _, name := range []string{"StageFailureRate", "BadRequestBurst", "NewCause"} {
		if strings.Contains(string(m.Blocks)+string(m.Attachments), name) {
			return name
		}
	}
	first, _, _ := strings.Cut(slack.Text(m), "\n")
	return first
}

// awaitAlert waits for the first message about the burst.
func (r *faultRun) awaitAlert() {
	r.Helper()
	for end := time.Now().Add(alertWithin); r.alerted.IsZero(); time.Sleep(50 * time.Millisecond) {
		if _, r.alerted = r.messages(); r.alerted.IsZero() && time.Now().After(end) {
			r.Fatal("no message about the burst")
		}
	}
	time.Sleep(alertSettles)
}

// countMessages fails the test unless each alert of the burst is one message.
func (r *faultRun) countMessages() {
	r.Helper()
	if r.alerts, _ = r.messages(); r.alerts["StageFailureRate"] != 1 {
		r.Errorf("messages about the burst: %v", r.alerts)
	}
	for name, n := range r.alerts {
		if n > 1 {
			r.Errorf("%d messages about the burst: %s", n, name)
		}
	}
}

// cannot skips a fault that this machine cannot produce; on CI, it fails the test.
func cannot(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED, " + why)
}

// row returns the row of the table.
func (r *faultRun) row() []string {
	a, name := r.result, r.fault.name
	if n := max(r.fault.times, 1); n > 1 && *allFaults == "all" {
		name += fmt.Sprintf(", %d times", n)
	}
	if h := r.fault.held(); h > 0 {
		name += fmt.Sprintf(", %v", h)
	}
	var remarks []string
	if r.fault.drops {
		remarks = append(remarks, fmt.Sprintf("hooks dropped %d calls", r.dropped))
	}
	if r.fault.damages {
		remarks = append(remarks, fmt.Sprintf("the disk lost %d unread events, %d calls in all; llmtap counts %d events", r.lost, a.excused, r.counted))
	}
	alerted := "-"
	if !r.alerted.IsZero() {
		alerted = fmt.Sprintf("%.1f s", r.alerted.Sub(r.burst).Seconds())
	}
	differences, tallied := fmt.Sprint(len(a.differences)), fmt.Sprint(a.tallied)
	if a.damaged {
		differences, tallied = "-", "-" // the stream is not what the collector has read
	}
	row := []string{
		name, fmt.Sprint(a.acked), fmt.Sprint(a.framed), fmt.Sprint(a.stored), fmt.Sprint(a.missing), fmt.Sprint(a.duplicates), differences, tallied,
		fmt.Sprint(r.alerts["StageFailureRate"]), fmt.Sprintf("%.1f s", quantile(r.queryable, 1).Seconds()), alerted,
		strings.Join(remarks, "; "),
	}
	r.Log("\n" + columns([][]string{head, row}))
	return row
}
