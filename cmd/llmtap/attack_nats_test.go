package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var onNATS = []string{"nats"}

// natsAttacks are what an agent, or somebody without a token, tries on the embedded NATS.
var natsAttacks = []attack{
	{
		name: "no token, a wrong one, the hash of one, that of another listener", listeners: onNATS, short: true,
		want: "Authorization Violation",
		run: func(w *attackWorld, _ string) string {
			return each([]string{"", "wrong", "sha256:00", receiveToken, httpToken}, func(token string) string {
				nc, err := w.natsClient(w.secured, token)
				if err == nil {
					nc.Close()
					return "accepted"
				}
				return strings.TrimPrefix(err.Error(), "nats: ")
			})
		},
	},
	{
		name: "an agent publishes on another service's subject", listeners: onNATS, short: true, want: "no answer",
		run: func(w *attackWorld, _ string) string {
			nc, err := w.natsClient(w.secured, serviceToken)
			if err != nil {
				return err.Error()
			}
			defer nc.Close()
			return answered(nc, "llmtap.v1.request.search-agent.00")
		},
	},
	{
		name: "an agent names another service in the headers of an event on its own subject", listeners: onNATS, short: true,
		want: "not stored as that service",
		run:  spoofService,
	},
	{
		name: "an agent reads the stream, messages and state", listeners: onNATS, short: true, want: "no answer",
		run: func(w *attackWorld, _ string) string {
			return w.asAgents(func(nc *nats.Conn) string {
				var got []string
				for _, api := range []string{
					"INFO", "STREAM.NAMES", "STREAM.INFO.LLMTAP", "STREAM.MSG.GET.LLMTAP", "DIRECT.GET.LLMTAP",
					"DIRECT.GET.KV_llmtap_alerts.$KV.llmtap_alerts.x",
					"CONSUMER.CREATE.LLMTAP", "CONSUMER.CREATE.LLMTAP.x", "CONSUMER.DURABLE.CREATE.LLMTAP.x", "CONSUMER.NAMES.LLMTAP",
					"CONSUMER.MSG.NEXT.LLMTAP.x",
					"STREAM.SNAPSHOT.LLMTAP", "ACCOUNT.PURGE.$G",
				} {
					got = append(got, answered(nc, "$JS.API."+api))
				}
				return distinct(append(got, answered(nc, "$SYS.REQ.SERVER.PING"), answered(nc, "$SYS.REQ.USER.INFO.x")))
			})
		},
	},
	{
		name: "an agent subscribes to > , to events and to the collector's inbox", listeners: onNATS, short: true,
		want: "Permissions Violation",
		run: func(w *attackWorld, _ string) string {
			return w.asAgents(func(nc *nats.Conn) string {
				return each([]string{">", "*.>", "llmtap.>", "llmtap.v1.request.*.*", "llmtap.tally.>", "_LLMTAP_INBOX.>", "$KV.>", "$JS.>", "$SYS.>", "_R_.>"}, func(s string) string {
					return subscribed(nc, s)
				})
			})
		},
	},
	{
		name: "an agent deletes and purges streams, writes state, tallies and dead letters", listeners: onNATS, short: true,
		want: "nothing changed",
		run: func(w *attackWorld, _ string) string {
			return w.unchanged(func(nc *nats.Conn, s string) { _ = nc.Publish(s, []byte("{}")) })
		},
	},
	{
		name: "an agent lets NATS do it: the acknowledgement of its event goes there", listeners: onNATS, short: true,
		want: "nothing changed",
		run: func(w *attackWorld, _ string) string {
			return w.unchanged(func(nc *nats.Conn, s string) {
				_ = nc.PublishRequest("llmtap.v1.request.checkout-agent.00", s, []byte("{}"))
			})
		},
	},
	{
		name: "a payload of 9 MB", listeners: onNATS, short: true, want: "Maximum Payload Violation|closed",
		run: func(w *attackWorld, _ string) string {
			return w.rawNATS(w.plain, fmt.Sprintf("CONNECT {\"verbose\":false}\r\nPUB llmtap.v1.request.x.00 %d\r\n%s\r\n", 9<<20, strings.Repeat("x", 9<<20)), 10*time.Second)
		},
	},
	{
		name: "a payload that announces more than an int holds", listeners: onNATS,
		want: "Maximum Payload Violation|closed|.*Parser Error.*|Parser Error",
		run: func(w *attackWorld, _ string) string {
			return w.rawNATS(w.plain, "CONNECT {}\r\nPUB llmtap.v1.request.x.00 99999999999999999999\r\n", 10*time.Second)
		},
	},
	{
		name: "a control line of 1 MB", listeners: onNATS, short: true,
		want: "Maximum Control Line Exceeded|maximum control line exceeded|closed",
		run: func(w *attackWorld, _ string) string {
			return w.rawNATS(w.plain, "CONNECT {}\r\nPUB "+strings.Repeat("x", 1<<20), 10*time.Second)
		},
	},
	{
		name: "malformed bytes", listeners: onNATS, short: true,
		want: "Unknown Protocol Operation|Parser Error|.*Parser Error.*|closed|Authorization Violation",
		run: func(w *attackWorld, _ string) string {
			return w.rawNATS(w.plain, strings.Repeat("\x00\xff\r\n", 1000), 10*time.Second)
		},
	},
	{
		name: "a client that never logs in", waits: true, listeners: onNATS, want: "Authentication Timeout",
		run: func(w *attackWorld, _ string) string { return w.rawNATS(w.plain, "", 15*time.Second) },
	},
	{
		name: "events whose headers are malformed, huge or contradictory", listeners: onNATS, short: true, want: "refused or counted",
		run: malformedEvents,
	},
	{
		name: "events whose body is a gzip bomb of 512 MB", listeners: append([]string{"receive"}, onNATS...), short: true,
		want: "memory is bounded",
		run:  bombEvents,
	},
}

// natsClient connects to the embedded NATS of c with a token.
func (w *attackWorld) natsClient(c *target, token string) (*nats.Conn, error) {
	opts := []nats.Option{nats.Token(token), nats.NoReconnect(), nats.Timeout(10 * time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if c.tls != nil {
		opts = append(opts, nats.Secure(c.tls.Clone()))
	}
	return nats.Connect("nats://"+c.addr["nats"], opts...)
}

// asAgents calls f for agents: one of a collector without tokens, one with the token of all services and one with that of its own. It
// returns the distinct results.
func (w *attackWorld) asAgents(f func(nc *nats.Conn) string) string {
	var got []string
	for _, agent := range []struct {
		c     *target
		token string
	}{{w.plain, ""}, {w.secured, natsToken}, {w.secured, serviceToken}} {
		nc, err := w.natsClient(agent.c, agent.token)
		if err != nil {
			return err.Error()
		}
		got = append(got, f(nc))
		nc.Close()
	}
	return distinct(got)
}

// answered returns whether a request is answered.
func answered(nc *nats.Conn, subject string) string {
	m, err := nc.Request(subject, []byte("{}"), 150*time.Millisecond)
	if err != nil {
		return "no answer"
	}
	return fmt.Sprintf("%s answers %.80s", subject, m.Data)
}

// subscribed returns the error of a subscription.
func subscribed(nc *nats.Conn, subject string) string {
	errs := make(chan error, 1)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case errs <- err:
		default:
		}
	})
	sub, err := nc.Subscribe(subject, func(*nats.Msg) {})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = sub.Unsubscribe() }()             // refused
	if err := nc.FlushTimeout(time.Minute); err != nil { // the server has answered
		return err.Error()
	}
	select {
	case err := <-errs:
		if errors.Is(err, nats.ErrPermissionViolation) || strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
			return "Permissions Violation"
		}
		return err.Error()
	case <-time.After(3 * time.Second):
		return "subscribed to " + subject
	}
}

// js returns the JetStream of a collector with all rights.
func (w *attackWorld) js(c *target) jetstream.JetStream {
	nc := must.Get(w.natsClient(c, collectortest.CollectorToken))(w)
	w.Cleanup(nc.Close)
	return must.Get(jetstream.New(nc))(w)
}

// unchanged lets agents send to subjects that change streams, and returns whether any of them has changed.
func (w *attackWorld) unchanged(send func(nc *nats.Conn, subject string)) string {
	return w.asAgents(func(nc *nats.Conn) string {
		c := w.plain
		if nc.Opts.Token != "" {
			c = w.secured
		}
		js := w.js(c)
		mark := "attack" + uuid.NewString()[:8]
		for _, s := range []string{
			"$JS.API.STREAM.DELETE.LLMTAP", "$JS.API.STREAM.PURGE.LLMTAP", "$JS.API.STREAM.MSG.DELETE.LLMTAP",
			"$JS.API.STREAM.CREATE." + mark,
			"$JS.API.STREAM.DELETE.KV_llmtap_alerts", "$JS.API.STREAM.UPDATE.LLMTAP", "$KV.llmtap_alerts." + mark,
			"$KV.llmtap_checkpoint." + mark,
			"$KV.llmtap_ledger." + mark, "llmtap.tally." + mark, "llmtap.dead." + mark, event.SpansPrefix + mark, "$JS.ACK.LLMTAP.x.1.1.1.1.1", "$JS.FC." + mark,
		} {
			send(nc, s)
		}
		if err := nc.Flush(); err != nil {
			return err.Error()
		}
		time.Sleep(300 * time.Millisecond)
		for _, name := range []string{event.StreamEvents, event.StreamDead, event.StreamTally, event.StreamSpans, "KV_llmtap_alerts", "KV_llmtap_checkpoint", "KV_llmtap_ledger"} {
			stream, err := js.Stream(w.Context(), name)
			if err != nil {
				return name + ": " + err.Error()
			}
			info, err := stream.Info(w.Context(), jetstream.WithSubjectFilter(">"))
			if err != nil {
				return err.Error()
			}
			for subject := range info.State.Subjects {
				if strings.Contains(subject, mark) {
					return "written: " + subject
				}
			}
			if name == event.StreamEvents && info.State.FirstSeq > 1 {
				return "events were purged"
			}
		}
		return "nothing changed"
	})
}

// rawNATS sends bytes after the greeting and returns the error that the server answers, or "closed".
func (w *attackWorld) rawNATS(c *target, payload string, wait time.Duration) string {
	conn := must.Get(c.dial("nats"))(w)
	defer conn.Close()
	must.Do(w, conn.SetDeadline(time.Now().Add(wait)))
	go func() { _, _ = io.WriteString(conn, payload) }() // the server may close the connection
	text, err := io.ReadAll(conn)
	_, after, found := bytes.Cut(text, []byte("-ERR '"))
	switch {
	case found:
		reason, _, _ := bytes.Cut(after, []byte("'"))
		return string(reason)
	case err != nil && strings.Contains(err.Error(), "timeout"):
		return "held open"
	}
	return "closed"
}

// spoofService publishes an event of another service on the subject of its own.
func spoofService(w *attackWorld, _ string) string {
	nc, err := w.natsClient(w.secured, serviceToken)
	if err != nil {
		return err.Error()
	}
	defer nc.Close()
	q := collectortest.Exchange(0, 2000)
	victim := "victim-" + uuid.NewString()[:8]
	for _, e := range q {
		e.Time, e.Labels.Service, e.Labels.Conversation = time.Now(), victim, victim
		m := &nats.Msg{Subject: "llmtap.v1." + e.Kind.String() + ".checkout-agent.00", Header: nats.Header(e.Encode()), Data: e.Body}
		if _, err := nc.RequestMsg(m, 5*time.Second); err != nil {
			return err.Error()
		}
	}
	if err := w.secured.callIsStored(w.T); err != nil { // after them
		return err.Error()
	}
	time.Sleep(2 * time.Second) // another shard of the stream
	res, err := w.secured.rows.query(w.Context(), "SELECT count() FROM exchanges_final WHERE service = '"+victim+"'")
	if err != nil {
		return err.Error()
	}
	if n := res.Rows[0][0].(uint64); n > 0 {
		return fmt.Sprintf("stored as a call of %.6s", victim)
	}
	return "not stored as that service"
}

// malformedEvents publishes events that Decode or an analyzer may stumble over.
func malformedEvents(w *attackWorld, _ string) string {
	return w.asAgents(func(nc *nats.Conn) string {
		for i, headers := range []nats.Header{
			{},
			{"Llmtap-Exchange": {"x"}, "Llmtap-Status": {"-1"}},
			{"Llmtap-Exchange": {"x"}, "Llmtap-Part": {"2/99999999"}, "Llmtap-Body-Bytes": {"2147483647"}},
			{"Llmtap-Exchange": {"x"}, "Llmtap-Part": {"1/1024"}, "Llmtap-Body-Bytes": {"2147483647"}},
			{"Llmtap-Exchange": {strings.Repeat("x", 60_000)}},
			{"Llmtap-Exchange": {"x"}, "Llmtap-Time": {"9999-12-31T23:59:59Z"}},
			{"Llmtap-Exchange": {"x"}, "Llmtap-Duration-Ms": {"1e999"}},
			{"Llmtap-Exchange": {"%00%ff%0a"}, "Llmtap-Stage": {"%zz%"}},
			{"Llmtap-Exchange": {"x"}, "Content-Encoding": {"gzip"}},
		} {
			m := &nats.Msg{Subject: "llmtap.v1.request.checkout-agent.00", Header: headers, Data: []byte(strings.Repeat(`{"messages":[`, 1+i*10_000))}
			if err := nc.PublishMsg(m); err != nil {
				return err.Error()
			}
		}
		if err := nc.Flush(); err != nil {
			return err.Error()
		}
		return "refused or counted" // that the collector works afterwards is checked at the end
	})
}

// bombEvents sends a call whose bodies decompress to 512 MB.
func bombEvents(w *attackWorld, listener string) string {
	events := collectortest.Exchange(0, 2000)
	for _, e := range events {
		e.Time, e.Labels.Service, e.Body, e.ContentEncoding = time.Now(), "checkout-agent", w.upstream.bomb, "gzip"
	}
	if listener == "receive" {
		var payload []byte
		for _, e := range events {
			payload = append(e.AppendJSON(payload), '\n')
		}
		r := w.plain.doAs(w.T, listener, "POST", "/v1/events", string(payload), map[string][]string{"Content-Type": {"application/x-ndjson"}})
		if r.code != 200 {
			return r.status() + r.body
		}
	} else {
		nc, err := w.natsClient(w.plain, "")
		if err != nil {
			return err.Error()
		}
		defer nc.Close()
		for _, e := range events {
			if _, err := nc.RequestMsg(&nats.Msg{Subject: e.Subject(), Header: nats.Header(e.Encode()), Data: e.Body}, 5*time.Second); err != nil {
				return err.Error()
			}
		}
	}
	return w.plain.survives(w.T, "memory is bounded")
}
