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

	"github.com/llmtap/llmtap/ingest/event"
)

// Headers of a dead letter, beside those of the original message.
const (
	HeaderDeadReason  = "Llmtap-Dead-Reason"
	HeaderDeadSubject = "Llmtap-Dead-Subject" // of the original
	HeaderDeadSeq     = "Llmtap-Dead-Seq"     // of the original in its stream
	HeaderDeadError   = "Llmtap-Dead-Error"
)

const (
	deadTimeout  = 10 * time.Second // a reader waits no longer to write a dead letter
	deadOverhead = 4 << 10          // bytes of the headers above, and some
)

// DeadLetter keeps an event whose content could not be used, for someone to look at; seq is its place in the stream, and
// reason one token of a subject. A body that is too long for a message is cut. When NATS does not take the letter in time,
// that is counted and logged, and the caller goes on.
func (c *Conn) DeadLetter(ctx context.Context, ev *event.Event, seq uint64, reason, why string) {
	c.writeDead(ctx, &nats.Msg{Subject: ev.Subject(), Header: nats.Header(ev.Encode()), Data: ev.Body}, seq, reason, why)
}

// deadLetter keeps what could not be decoded, as DeadLetter does.
func (c *Conn) deadLetter(ctx context.Context, m *nats.Msg, seq uint64, why error) {
	reason := reasonBadHeader
	if _, _, _, err := event.ParseSubject(m.Subject); err != nil {
		reason = reasonBadSubject
	}
	c.m.dropped.WithLabelValues(reason).Inc()
	c.writeDead(ctx, m, seq, reason, why.Error())
}

func (c *Conn) writeDead(ctx context.Context, m *nats.Msg, seq uint64, reason, why string) {
	h := maps.Clone(m.Header)
	if h == nil {
		h = nats.Header{}
	}
	maps.DeleteFunc(h, func(k string, _ []string) bool { return strings.HasPrefix(k, "Nats-") })
	number := strconv.FormatUint(seq, 10)
	h.Set(HeaderDeadReason, reason)
	h.Set(HeaderDeadSubject, m.Subject)
	h.Set(HeaderDeadSeq, number)
	h.Set(HeaderDeadError, headerLine(why))
	h.Set(event.HeaderMsgID, "dead."+number+"."+reason)
	room := max(int(c.nc.MaxPayload())-headerSize(h)-deadOverhead, 0)
	letter := &nats.Msg{Subject: event.DeadPrefix + reason, Header: h, Data: m.Data[:min(len(m.Data), room)]}

	ctx, cancel := context.WithTimeout(ctx, deadTimeout)
	defer cancel()
	err := c.retry(ctx, func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, letter, natsjs.WithRetryAttempts(0))
		return err
	})
	if err != nil {
		c.m.dropped.WithLabelValues(reasonDeadLetter).Inc()
		c.log.Error("dead letter not written", "seq", seq, "reason", reason, "err", err)
	}
}

// DeadRow keeps a row that the store refuses, with the reason why and, as its subject and sequence, the table and the place
// in the stream that it is of. A row that is too long for a message is cut.
func (c *Conn) DeadLetterRow(ctx context.Context, table, id string, seq uint64, why error, row []byte) error {
	h := nats.Header{
		HeaderDeadReason: {reasonRow}, HeaderDeadSubject: {headerLine(table)}, HeaderDeadSeq: {strconv.FormatUint(seq, 10)},
		HeaderDeadError: {headerLine(why.Error())}, event.HeaderMsgID: {"dead." + headerLine(table+"."+id+"."+strconv.FormatUint(seq, 10))},
	}
	room := max(int(c.nc.MaxPayload())-deadOverhead, 0)
	err := c.retry(ctx, func(ctx context.Context) error {
		_, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: event.DeadPrefix + reasonRow, Header: h, Data: row[:min(len(row), room)]}, natsjs.WithRetryAttempts(0))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep row %s of %s: %w", id, table, err)
	}
	return nil
}

func headerSize(h nats.Header) (n int) {
	for k, values := range h {
		for _, v := range values {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}

// headerLine makes s one printable line of at most event.MaxHeaderValue bytes.
func headerLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), event.MaxHeaderValue)]
}
