package jetstream

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Headers of a dead letter, in addition to those of the original message.
const (
	headerDeadReason  = "Llmtap-Dead-Reason"
	HeaderDeadSubject = "Llmtap-Dead-Subject" // subject of the original message
	headerDeadSeq     = "Llmtap-Dead-Seq"     // stream sequence of the original message
	headerDeadIndex   = "Llmtap-Dead-Index"   // of the event in its frame, if not 0
	HeaderDeadError   = "Llmtap-Dead-Error"
)

const (
	deadTimeout  = 10 * time.Second // bounds how long a dead letter blocks a reader
	deadOverhead = 4 << 10          // bytes reserved for the headers above
)

// DeadLetter stores an event with unusable content for inspection. seq is its stream sequence and index its place in its frame,
// or 0, and reason becomes the last token of the dead letter's subject. A body that exceeds the maximum message size is truncated. Failures are
// counted and logged.
func (c *Conn) DeadLetter(ctx context.Context, ev *event.Event, seq uint64, index int, reason, why string) {
	c.deadLetter(ctx, &nats.Msg{Subject: ev.Subject(), Header: nats.Header(ev.Encode()), Data: ev.Body}, seq, index, reason, why)
}

// deadLetterUndecodable stores an undecodable message.
func (c *Conn) deadLetterUndecodable(ctx context.Context, m *nats.Msg, seq uint64, index int, why error) {
	reason := reasonBadHeader
	if _, _, _, err := event.ParseSubject(m.Subject); err != nil && !event.IsFrame(m.Subject) {
		reason = reasonBadSubject
	}
	c.m.dropped.WithLabelValues(reason).Inc()
	c.deadLetter(ctx, m, seq, index, reason, why.Error())
}

func (c *Conn) deadLetter(ctx context.Context, m *nats.Msg, seq uint64, index int, reason, why string) {
	h := maps.Clone(m.Header)
	if h == nil {
		h = nats.Header{}
	}
	maps.DeleteFunc(h, func(k string, _ []string) bool { return strings.HasPrefix(k, "Nats-") })
	h.Set(HeaderDeadSubject, m.Subject)
	h.Set(event.HeaderMsgID, fmt.Sprintf("dead.%d.%s", seq, reason))
	if index > 0 {
		h.Set(headerDeadIndex, strconv.Itoa(index))
		h.Set(event.HeaderMsgID, fmt.Sprintf("dead.%d.%d.%s", seq, index, reason))
	}
	ctx, cancel := context.WithTimeout(ctx, deadTimeout)
	defer cancel()
	if err := c.publishDead(ctx, h, seq, reason, why, m.Data); err != nil {
		c.m.dropped.WithLabelValues(reasonDeadLetter).Inc()
		c.log.Error("dead letter not written", "seq", seq, "reason", reason, "err", err)
	}
}

// DeadLetterRow stores a row that the store rejects. The subject and sequence of the dead letter are the row's table
// and stream sequence. A row that exceeds the maximum message size is truncated.
func (c *Conn) DeadLetterRow(ctx context.Context, table, id string, seq uint64, why error, row []byte) error {
	h := nats.Header{
		HeaderDeadSubject: {headerLine(table)}, event.HeaderMsgID: {"dead." + headerLine(fmt.Sprintf("%s.%s.%d", table, id, seq))},
	}
	if err := c.publishDead(ctx, h, seq, reasonRow, why.Error(), row); err != nil {
		return fmt.Errorf("write dead letter for row %s of %s: %w", id, table, err)
	}
	return nil
}

// publishDead adds reason, sequence and error to the headers h and publishes a dead letter with them.
func (c *Conn) publishDead(ctx context.Context, h nats.Header, seq uint64, reason, why string, data []byte) error {
	h.Set(headerDeadReason, reason)
	h.Set(headerDeadSeq, strconv.FormatUint(seq, 10))
	h.Set(HeaderDeadError, headerLine(why))
	limit := max(int(c.nc.MaxPayload())-headerSize(h)-deadOverhead, 0)
	letter := &nats.Msg{Subject: event.DeadPrefix + reason, Header: h, Data: data[:min(len(data), limit)]}
	return c.retry(ctx, func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, letter, natsjs.WithRetryAttempts(0))
		return err
	})
}

func headerSize(h nats.Header) (n int) {
	for k, values := range h {
		for _, v := range values {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}

// headerLine returns s as one printable line of at most event.MaxHeaderValue bytes.
func headerLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), event.MaxHeaderValue)]
}
