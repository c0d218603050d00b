package doctor

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
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Thresholds for the checks of NATS.
const (
	skewWarn    = 2 * time.Second // tolerance of the analyzer
	skewFail    = 5 * time.Second // leases last 6 s
	backlogWarn = time.Minute
	tallyFail   = time.Minute
	lossWindow  = time.Hour
)

// checkNATS checks the server and the streams.
func (c *checker) checkNATS(ctx context.Context, cfg jetstream.Config) {
	dial, cancel := context.WithTimeout(ctx, checkTimeout)
	conn, err := jetstream.Connect(dial, cfg, slog.New(slog.DiscardHandler), nil)
	cancel()
	if err != nil {
		c.fail("nats", c.natsFix(err), "%v", err)
		return
	}
	defer conn.Close()
	st, err := conn.Inspect(ctx)
	switch {
	case errors.Is(err, jetstream.ErrNoJetStream):
		c.fail("nats", "start the server with -js or a jetstream block, enable JetStream for the account, or unset nats.url to use an embedded server",
			"the server at %s has no JetStream", config.MaskURL(cfg.URL))
		return
	case err != nil:
		c.fail("nats", "see the log of the NATS server, and permit this user to publish to $JS.API.>", "%v", err)
		return
	}
	c.ok("nats", "nats-server %s at %s, responds in %s", st.Server, config.MaskURL(cfg.URL), age(st.RTT))
	if !c.checkStreams(st) {
		return
	}
	c.checkClock(st)
	for i := range st.Partitions {
		c.checkBacklog(&st.Partitions[i], &st.Streams[0])
	}
	c.checkTallies(st)
	c.checkLosses(ctx, conn)
	c.checkClients(ctx)
	if len(st.DeadLetters) == 0 {
		c.ok("dead_letters", "none")
	} else {
		c.warn("dead_letters", "inspect them with the NATS client: nats stream view "+event.StreamDead, "unusable events by reason: %s", ranking(st.DeadLetters))
	}
}

// natsFix returns the fix for a connection error.
func (c *checker) natsFix(err error) string {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrPermissionViolation):
		if c.cfg.NATS.URL == "" {
			return "set nats_server.token to the token of llmtap up"
		}
		return "set nats.user and nats.password, nats.token, nats.creds_file or nats.nkey_file"
	case strings.Contains(err.Error(), "x509") || strings.Contains(err.Error(), "tls"):
		return "set nats.ca_file to the CA of the server's certificate, and nats.cert_file if the server requires a client certificate"
	}
	return "start the server or correct nats.url; check firewalls"
}

// checkStreams checks the streams. It returns false if further checks are impossible.
func (c *checker) checkStreams(st *jetstream.State) bool {
	const start = "run llmtap up once to create it"
	sound := true
	for _, s := range st.Streams {
		if s.Missing {
			c.fail("streams", start, "stream %s is missing", s.Name)
			sound = false
		} else if len(s.Mismatches) > 0 {
			c.warn("streams", "run llmtap doctor with the configuration of llmtap up, or restart llmtap up to apply the limits", "stream %s: %s", s.Name, strings.Join(s.Mismatches, ", "))
			sound = false
		}
	}
	for _, b := range st.MissingBuckets {
		c.fail("streams", start, "bucket %s is missing", b)
		sound = false
	}
	if events := st.Streams[0]; sound {
		size := config.FormatBytes(events.Bytes)
		if events.MaxBytes > 0 {
			size += " of " + config.FormatSize(events.MaxBytes)
		}
		c.ok("streams", "as configured; %s has %d messages, %s, retention %s", events.Name, events.Messages, size, config.FormatDuration(events.MaxAge))
	}
	return !st.Streams[0].Missing && len(st.MissingBuckets) == 0
}

func (c *checker) checkClock(st *jetstream.State) {
	skew := max(st.Skew.Abs()-st.RTT/2, 0)
	const fix = "synchronize both clocks (chrony, systemd-timesyncd)"
	direction := "ahead of"
	if st.Skew < 0 {
		direction = "behind"
	}
	switch {
	case skew > skewFail:
		c.fail("clock", fix, "the clock of NATS is %s %s this machine's: leases and alert windows are wrong", age(skew), direction)
	case skew > skewWarn:
		c.warn("clock", fix, "the clock of NATS is %s %s this machine's", age(skew), direction)
	default:
		c.ok("clock", "NATS and this machine agree within %s", age(max(st.Skew.Abs(), st.RTT/2, time.Millisecond)))
	}
}

// checkBacklog reports events of a partition that are not stored yet.
func (c *checker) checkBacklog(p *jetstream.PartitionState, events *jetstream.StreamState) {
	if p.Lost > 0 {
		c.fail("backlog", "raise nats.max_age and nats.max_bytes, and find out why rows were not stored in time", "%s: %d events left the stream before they were stored",
			p.Name, p.Lost)
	}
	if p.Owner == "" || c.now.After(p.LeaseUntil) {
		last := ""
		if p.Owner != "" {
			last = fmt.Sprintf(" since %s ago (%s)", age(c.now.Sub(p.LeaseUntil)), p.Owner)
		}
		c.fail("backlog", "start llmtap up with the role analyze", "%s: no process reads it%s; %d messages pending", p.Name, last, p.Pending)
		return
	}
	if p.Pending == 0 {
		c.ok("backlog", "%s: none; read by %s", p.Name, p.Owner)
		return
	}
	oldest := c.now.Sub(p.OldestPending)
	text := fmt.Sprintf("%s: %d messages pending, the oldest for %s of %s", p.Name, p.Pending, age(oldest), config.FormatDuration(events.MaxAge))
	full := 0.0 // ratio of the backlog to the maximum size of the stream
	if events.MaxBytes > 0 && events.Messages > 0 {
		full = float64(events.Bytes) / float64(events.Messages) * float64(p.Pending) / float64(events.MaxBytes)
	}
	const fix = "see the check of clickhouse and the log of llmtap up; nothing is lost while the events are in the stream"
	switch {
	case oldest > events.MaxAge/2 || full > 0.5:
		c.fail("backlog", "act before the stream drops them: "+fix, "%s (%.0f%% of its size)", text, 100*full)
	case oldest > backlogWarn:
		c.warn("backlog", fix, "%s", text)
	default:
		c.ok("backlog", "%s", text)
	}
}

// checkTallies reports missing tallies, without which alerts cannot fire.
func (c *checker) checkTallies(st *jetstream.State) {
	now, events := c.now.Add(st.Skew), st.Streams[0]
	i := slices.IndexFunc(st.Streams, func(s jetstream.StreamState) bool { return s.Name == event.StreamTally })
	tallies := st.Streams[i]
	switch newest := now.Sub(tallies.LastTime); {
	case tallies.Missing:
	case tallies.Messages == 0 && events.Messages > 0 && now.Sub(events.FirstTime) > tallyFail:
		c.fail("tallies", "start llmtap up with the role analyze", "none, although there are events: alerts cannot fire")
	case tallies.Messages == 0:
		c.ok("tallies", "none yet")
	case newest > tallyFail:
		c.fail("tallies", "see the check of the backlog, and the log of the role analyze", "the newest is %s old: alerts cannot fire", age(newest))
	default:
		c.ok("tallies", "the newest is %s old", age(max(newest, 0)))
	}
}

// uncapturedTexts describes the calls over each transport that are not recorded, and what to do.
var uncapturedTexts = map[string]struct{ calls, fix string }{
	event.TransportGRPC:      {"calls over gRPC", `use the REST transport of these clients, in Google's transport="rest"; the log of the service names the hosts`},
	event.TransportWebSocket: {"connections over WebSockets", "use the HTTP API of the provider if it has one for these calls, such as Responses with stream; the log of the service names the hosts"},
	event.TransportHTTP3:     {"calls over HTTP/3", "turn HTTP/3 off in these clients; the log of the service names the hosts"},
	analyzer.TransportBatch:  {"batches", "import the files of their requests and results: llmtap import --help"},
	analyzer.TransportOther:  {"calls with unknown clients", "use llmtap's proxy as their base URL; the log of the service names the clients and hosts"},
}

// checkLosses reports the losses in recent tallies.
func (c *checker) checkLosses(ctx context.Context, conn *jetstream.Conn) {
	lost, dropped, sampled, uncaptured := map[string]uint64{}, map[string]uint64{}, map[string]uint64{}, map[string]map[string]uint64{}
	err := conn.TalliesSince(ctx, c.now.Add(-lossWindow), func(payload []byte) error {
		var t analyzer.Tally
		if err := json.Unmarshal(payload, &t); err != nil {
			return nil //nolint:nilerr // the alert role reports invalid tallies
		}
		for _, n := range t.Counts {
			switch n.Metric {
			case analyzer.MetricLost:
				lost[n.Labels["service"]] += n.N
			case analyzer.MetricDropped:
				dropped[n.Labels["service"]] += n.N
			case analyzer.MetricTextsDropped:
				sampled[n.Labels["service"]] += n.N
			case analyzer.MetricUncaptured:
				transport := cmp.Or(n.Labels["transport"], analyzer.TransportOther)
				if uncaptured[transport] == nil {
					uncaptured[transport] = map[string]uint64{}
				}
				uncaptured[transport][n.Labels["service"]] += n.N
			}
		}
		return nil
	})
	if err != nil {
		c.fail("losses", "see the log of the NATS server", "%v", err)
		return
	}
	c.dropped, c.uncaptured = dropped, uncaptured
	for _, transport := range slices.Sorted(maps.Keys(uncaptured)) {
		u := uncapturedTexts[transport]
		c.warn("capture", u.fix, "not recorded in the last hour: %s: %s", u.calls, ranking(uncaptured[transport]))
	}
	if len(sampled) > 0 {
		c.ok("texts", "of calls in the last hour, not stored by content.sampling: %s", ranking(sampled))
	}
	if len(dropped) > 0 {
		c.warn("losses", "their queues were full: check the network to NATS, and the memory limit of the hooks", "hooks dropped calls in the last hour: %s", ranking(dropped))
	}
	if len(lost) > 0 {
		c.warn("losses", "look for killed processes, and check the limits of the stream", "events were lost in the last hour, including those of dropped calls: %s", ranking(lost))
	}
	if len(lost)+len(dropped) == 0 {
		c.ok("losses", "none in the last hour")
	}
}
