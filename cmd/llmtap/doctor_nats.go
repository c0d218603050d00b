package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
)

// From when on something about the stream is worth a word.
const (
	skewWarn    = 2 * time.Second  // the analyzer's own tolerance
	skewFail    = 10 * time.Second // leases of 15 s get in danger
	backlogWarn = time.Minute
	tallyFail   = time.Minute
	lossWindow  = time.Hour
)

// checkNATS looks at the server, the streams and what flows through them.
func (d *doctor) checkNATS(ctx context.Context, url string) {
	cfg := d.s.NATS
	if cfg.URL == "" {
		cfg.Token, cfg.TokenFile = d.s.NATSServer.Token, d.s.NATSServer.TokenFile
	}
	cfg.URL = url
	dial, cancel := context.WithTimeout(ctx, askTimeout)
	conn, err := jetstream.Connect(dial, cfg, slog.New(slog.DiscardHandler), nil)
	cancel()
	if err != nil {
		d.fail("nats", d.natsFix(err), "%v", err)
		return
	}
	defer conn.Close()
	st, err := conn.Inspect(ctx)
	switch {
	case errors.Is(err, jetstream.ErrNoJetStream):
		d.fail("nats", "start it with -js or a jetstream block, give the account JetStream, or leave nats.url empty for an embedded one",
			"the server at %s has no JetStream", config.MaskURL(url))
		return
	case err != nil:
		d.fail("nats", "look at the log of the NATS server, and whether this login may use $JS.API.>", "%v", err)
		return
	}
	d.ok("nats", "%s at %s, answers in %s", st.Server, config.MaskURL(url), ago(st.RTT))
	if !d.checkStreams(st) {
		return
	}
	d.checkClock(st)
	for i := range st.Partitions {
		d.checkBacklog(&st.Partitions[i], &st.Streams[0])
	}
	d.checkTallies(ctx, conn, st)
	d.checkDeadLetters(st)
}

func (d *doctor) natsFix(err error) string {
	keys := "nats.user and password, nats.token, nats.creds_file or nats.nkey_file"
	if d.s.NATS.URL == "" {
		keys = "nats_server.token as llmtap up has it"
	}
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrPermissionViolation):
		return "set " + keys
	case strings.Contains(err.Error(), "x509") || strings.Contains(err.Error(), "tls"):
		return "set nats.ca_file to the certificate that signs the server's, and nats.cert_file if it asks for one"
	}
	return "start the server, or correct nats.url; then look for a firewall in between"
}

// checkStreams is false when the stream of events is missing.
func (d *doctor) checkStreams(st *jetstream.State) bool {
	const start = "start llmtap up once: it makes what is missing"
	sound := true
	for _, s := range st.Streams {
		if s.Missing {
			d.fail("streams", start, "stream %s is missing", s.Name)
			sound = false
		} else if len(s.Mismatches) > 0 {
			d.warn("streams", "give llmtap doctor the configuration of llmtap up, or restart llmtap up: it sets the limits", "stream %s: %s", s.Name, strings.Join(s.Mismatches, ", "))
			sound = false
		}
	}
	for _, b := range st.MissingBuckets {
		d.fail("streams", start, "bucket %s is missing", b)
		sound = false
	}
	if events := st.Streams[0]; sound {
		size := config.FormatBytes(events.Bytes)
		if events.MaxBytes > 0 {
			size += " of " + config.FormatSize(events.MaxBytes)
		}
		d.ok("streams", "as configured; %s has %d events, %s, for %s", events.Name, events.Messages, size, config.FormatDuration(events.MaxAge))
	}
	return !st.Streams[0].Missing && len(st.MissingBuckets) == 0
}

func (d *doctor) checkClock(st *jetstream.State) {
	skew := max(st.Skew.Abs()-st.RTT/2, 0)
	const fix = "synchronise both clocks: chrony, systemd-timesyncd or NTP of the hypervisor"
	way := "ahead of"
	if st.Skew < 0 {
		way = "behind"
	}
	switch {
	case skew > skewFail:
		d.fail("clock", fix, "the clock of NATS is %s %s this machine's: leases and windows of alerts go wrong", ago(skew), way)
	case skew > skewWarn:
		d.warn("clock", fix, "the clock of NATS is %s %s this machine's", ago(skew), way)
	default:
		d.ok("clock", "NATS and this machine agree to %s", ago(max(st.Skew.Abs(), st.RTT/2, time.Millisecond)))
	}
}

// checkBacklog says how far behind the stream a partition's rows are.
func (d *doctor) checkBacklog(p *jetstream.PartitionState, events *jetstream.StreamState) {
	if p.Lost > 0 {
		d.fail("backlog", "raise nats.max_age and nats.max_bytes, and find out why rows were not stored in time", "%s: %d events left the stream before they were stored",
			p.Name, p.Lost)
	}
	if p.Owner == "" || d.now.After(p.LeaseUntil) {
		since := ""
		if p.Owner != "" {
			since = fmt.Sprintf(" since %s, which was %s", p.LeaseUntil.UTC().Format(time.RFC3339), p.Owner)
		}
		d.fail("backlog", "start llmtap up with the role analyze", "%s: nobody reads it%s; %d events wait", p.Name, since, p.Pending)
		return
	}
	if p.Pending == 0 {
		d.ok("backlog", "%s: none; %s reads it", p.Name, p.Owner)
		return
	}
	age := d.now.Sub(p.OldestPending)
	text := fmt.Sprintf("%s: %d events wait, the oldest for %s of %s", p.Name, p.Pending, ago(age), config.FormatDuration(events.MaxAge))
	full := 0.0 // share of the stream's room that the backlog takes
	if events.MaxBytes > 0 && events.Messages > 0 {
		full = float64(events.Bytes) / float64(events.Messages) * float64(p.Pending) / float64(events.MaxBytes)
	}
	const fix = "see the checks of clickhouse and the log of llmtap up; nothing is lost while the stream holds the events"
	switch {
	case age > events.MaxAge/2 || full > 0.5:
		d.fail("backlog", "act before the stream drops them: "+fix, "%s (%.0f %% of its bytes)", text, 100*full)
	case age > backlogWarn:
		d.warn("backlog", fix, "%s", text)
	default:
		d.ok("backlog", "%s", text)
	}
}

// checkTallies looks at the counts that alerts are made of, and at the losses that they tell of.
func (d *doctor) checkTallies(ctx context.Context, conn *jetstream.Conn, st *jetstream.State) {
	i := slices.IndexFunc(st.Streams, func(s jetstream.StreamState) bool { return s.Name == event.StreamTally })
	if tallies := st.Streams[i]; tallies.Missing {
		return
	} else if tallies.Messages == 0 {
		if events := st.Streams[0]; events.Messages > 0 && d.now.Add(st.Skew).Sub(events.FirstTime) > tallyFail {
			d.fail("tallies", "start llmtap up with the role analyze", "none, though there are events: no alert can fire")
			return
		}
		d.ok("tallies", "none yet")
	} else if age := d.now.Add(st.Skew).Sub(tallies.LastTime); age > tallyFail {
		d.fail("tallies", "see backlog, and the log of the analyze role", "the newest is %s old: no alert can fire", ago(age))
	} else {
		d.ok("tallies", "the newest is %s old", ago(max(age, 0)))
	}
	lost, dropped := map[string]uint64{}, map[string]uint64{}
	err := conn.TalliesSince(ctx, d.now.Add(-lossWindow), func(payload []byte) error {
		var t analyzer.Tally
		if err := json.Unmarshal(payload, &t); err != nil {
			return nil //nolint:nilerr // the alert role tells of it
		}
		for _, c := range t.Counts {
			switch c.Metric {
			case analyzer.MetricLost:
				lost[c.Labels["service"]] += c.N
			case analyzer.MetricDropped:
				dropped[c.Labels["service"]] += c.N
			}
		}
		return nil
	})
	if err != nil {
		d.fail("losses", "look at the log of the NATS server", "%v", err)
		return
	}
	if len(dropped) > 0 {
		d.warn("losses", "their queues were full: look at the network to NATS, and at the hooks' memory bound", "hooks dropped exchanges in the last hour: %s", ranking(dropped))
	}
	if len(lost) > 0 {
		d.warn("losses", "look for killed processes and for limits of the stream", "events are missing in the last hour, those of dropped exchanges included: %s", ranking(lost))
	}
	if len(lost)+len(dropped) == 0 {
		d.ok("losses", "none in the last hour")
	}
}

func (d *doctor) checkDeadLetters(st *jetstream.State) {
	if len(st.DeadLetters) == 0 {
		d.ok("dead_letters", "none")
		return
	}
	d.warn("dead_letters", "look at them with the NATS client: nats stream view "+event.StreamDead, "events that could not be used, by reason: %s", ranking(st.DeadLetters))
}

// maxRanking bounds the names in one line.
const maxRanking = 5

// ranking writes counts, largest first.
func ranking(counts map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, n := range names[:min(len(names), maxRanking)] {
		parts = append(parts, fmt.Sprintf("%s %d", n, counts[n]))
	}
	if more := len(names) - maxRanking; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}
