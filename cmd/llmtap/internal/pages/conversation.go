package pages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Conversations implements web.Conversations with package show.
type Conversations struct{ Source }

func (c Conversations) store(ctx context.Context) (show.Store, error) {
	sink, err := c.Source()
	if err != nil {
		return show.Store{}, unavailable(err)
	}
	s := show.Store{Q: sink}
	if !access.ScopeOf(ctx).Texts() {
		s.Withhold = show.NewWithholder()
	}
	return s, nil
}

// sourceError returns err as web knows it.
func sourceError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, show.ErrUnknown), errors.Is(err, show.ErrAmbiguous):
		return fmt.Errorf("%w: %w", web.ErrNotFound, err)
	case clickhouse.Unreachable(err) && !errors.Is(err, context.DeadlineExceeded):
		return unavailable(err)
	}
	return err
}

// Find implements web.Conversations.
func (c Conversations) Find(ctx context.Context, id string) (exchange, conversation string, err error) {
	s, err := c.store(ctx)
	if err != nil {
		return "", "", err
	}
	exchange, conversation, err = s.Resolve(ctx, id)
	return exchange, conversation, sourceError(err)
}

// Requests implements web.Conversations.
func (c Conversations) Requests(ctx context.Context, conversation, exchange string, n int) (*web.Requests, error) {
	s, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	all, at, err := s.Outline(ctx, conversation, exchange, n)
	if err != nil {
		return nil, sourceError(err)
	}
	out := &web.Requests{Conversation: all.ID, Count: all.Count, More: all.Truncated, At: at}
	for _, t := range all.Exchanges {
		r := web.Request{Exchange: t.Exchange.Exchange, Number: t.Number, Messages: t.Count, Added: t.Added, Repeats: t.Repeats()}
		for i := range t.Findings {
			if !slices.Contains(r.Rules, t.Findings[i].Rule) {
				r.Rules = append(r.Rules, t.Findings[i].Rule)
			}
		}
		out.List = append(out.List, r)
	}
	return out, nil
}

// Exchange implements web.Conversations.
func (c Conversations) Exchange(ctx context.Context, id string) (*web.Exchange, error) {
	s, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	e, times, err := s.TimedExchange(ctx, id)
	if err != nil {
		return nil, sourceError(err)
	}
	out := describeExchange(e, times)
	if s.Withhold != nil && e.Capture != event.CaptureShape {
		out.Shapes = show.Withheld + " " + sentence(access.ErrTexts.Error())
	}
	return out, nil
}

// Raw implements web.Conversations.
func (c Conversations) Raw(ctx context.Context, id, part string) ([]byte, error) {
	s, err := c.store(ctx)
	if err != nil {
		return nil, err
	}
	e, err := s.Texts(ctx, id)
	if err != nil {
		return nil, sourceError(err)
	}
	body := ""
	switch i, err := strconv.Atoi(part); {
	case part == "request":
		body, _ = e.Body()
	case part == "answer":
		body = e.Answer
	case err == nil && i >= 0 && i < len(e.Messages):
		body = e.Messages[i]
	}
	if body == "" {
		return nil, fmt.Errorf("%w: this part of the call is not stored", web.ErrNotFound)
	}
	return []byte(body), nil
}

func describeExchange(e *show.Exchange, times map[string]show.Timing) *web.Exchange {
	out := &web.Exchange{Exchange: e.Exchange, NotStored: e.Missing, Parameters: show.Readable(indented(e.Parameters))}
	out.ErrorText = indented(e.ErrorText)
	_, out.Complete = e.Body()
	if e.Shaped() {
		out.Shapes = show.OnlyShapes
	}
	request := make([]records.Message, len(e.Messages))
	for i, body := range e.Messages {
		request[i], _ = records.ParseMessage([]byte(body))
		out.Messages = append(out.Messages, describeMessage(i, body, &request[i]))
	}
	for _, l := range show.Links(request) {
		call, reply := &out.Messages[l.Call].Parts[l.CallPart], &out.Messages[l.Reply].Parts[l.ReplyPart]
		reply.Partner, reply.Again = l.Call, l.Again
		if !l.Again {
			call.Partner, call.Timing = l.Reply, timing(times[call.CallID])
		}
		if reply.Name == "" && call.Name != "" {
			reply.Name = call.Name
		}
	}
	for i, body := range records.Answer(wire.Dialect(e.Dialect), []byte(e.Answer)) {
		m, _ := records.ParseMessage(body)
		out.Answer = append(out.Answer, describeMessage(i, string(body), &m))
	}
	if out.Answer == nil && e.Answer != "" {
		out.Answer = []web.Message{describeMessage(0, e.Answer, &records.Message{})}
	}
	for i := range e.Findings {
		out.Findings = append(out.Findings, describeFinding(&e.Findings[i], ""))
	}
	for i := range e.Earlier {
		out.Findings = append(out.Findings, describeFinding(&e.Earlier[i], e.Earlier[i].Exchange))
	}
	slices.SortStableFunc(out.Findings, func(a, b web.Finding) int {
		return cmp.Or(bit(a.Since)-bit(b.Since), order(b.Breaks())-order(a.Breaks()))
	})
	return out
}

func bit(s string) int { return order(s != "") }

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}

func describeMessage(i int, body string, m *records.Message) web.Message {
	out := web.Message{Index: i, Role: m.Role, Stored: body != "", Size: len(body)}
	if len(m.Parts) == 0 && m.Role == "" && body != "" { // not a message of a known dialect
		out.Parts = []web.Content{{Kind: "other", Text: indented(body), Partner: -1}}
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		c := web.Content{Kind: string(p.Kind), Title: p.Title(), Name: p.Name, CallID: p.ID, Partner: -1}
		c.Text, c.Shaped = show.Plain(p)
		c.Text = show.Readable(indented(c.Text))
		out.Parts = append(out.Parts, c)
	}
	return out
}

func describeFinding(f *show.Finding, since string) web.Finding {
	out := web.Finding{Finding: f.Finding, Since: since}
	diff, pairs := f.Lines()
	lines := func(all []show.Line) (out []web.DiffLine) {
		for _, l := range all {
			mark := string(l.Mark)
			if l.Mark == ' ' {
				mark = ""
			}
			out = append(out, web.DiffLine{Mark: mark, Path: l.Path, Text: l.Text})
		}
		return out
	}
	out.Diff, out.Pairs = lines(diff), lines(pairs)
	return out
}

// timing returns how long a call took, in words; "" if it is not known.
func timing(t show.Timing) string {
	seconds := func(d time.Duration) string { return quantity.Latency(max(d, time.Millisecond).Seconds()) }
	switch {
	case t.StartedAt.Unix() > 0 && t.EndedAt.After(t.StartedAt):
		return cmp.Or(t.Status, "ended") + ", the tool took " + seconds(t.EndedAt.Sub(t.StartedAt))
	case t.AnsweredAt.After(t.AskedAt):
		return "reply sent " + seconds(t.AnsweredAt.Sub(t.AskedAt)) + " after the call"
	}
	return ""
}

// indented returns long JSON objects and lists with one member per line, and any other text unchanged.
func indented(text string) string {
	const oneLine = 100
	trimmed := bytes.TrimSpace([]byte(text))
	if len(trimmed) <= oneLine || trimmed[0] != '{' && trimmed[0] != '[' {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, trimmed, "", "  ") != nil {
		return text
	}
	return b.String()
}
