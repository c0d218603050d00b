package show

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	maxExchanges = 10_000   // maximum exchanges read of a conversation, without bodies
	maxDescribed = 64 << 10 // maximum bytes read of each message of a conversation
	maxAnswer    = 1 << 20  // maximum bytes read of each answer
)

var byConversation = rows.Statement(`SELECT ` + exchangeColumns + ` FROM exchanges FINAL WHERE conversation_id = {id:String} ORDER BY started_at, seq, exchange_id LIMIT 10001`)

// A Conversation is a stored conversation with its exchanges in order.
type Conversation struct {
	ID        string  `json:"conversation_id"`
	Count     int     `json:"exchange_count"`      // number of exchanges, at most 10,000
	Exchanges []*Turn `json:"exchanges"`           // at most the limit: failed exchanges, those with findings, and the newest
	Truncated bool    `json:"truncated,omitempty"` // there are more than 10,000 exchanges
}

// A Turn is an exchange with the messages it added.
type Turn struct {
	*Exchange
	Number int               `json:"number"`           // 1-based position in the conversation
	Count  int               `json:"messages"`         // number of messages in the request
	Kept   int               `json:"kept"`             // messages at the start that are the same as in the previous exchange
	Added  int               `json:"added"`            // number of the other messages
	New    []New             `json:"new"`              // the other messages, without those in the middle of a long list
	Answer []json.RawMessage `json:"answer,omitempty"` // messages of the answer; none if it is over 1 MiB or not stored
}

// A New is a message that differs from the message at the same position in the previous exchange.
type New struct {
	Index   int             `json:"index"`
	Text    string          `json:"text"`              // role, calls, replies, the start of the text
	Message json.RawMessage `json:"message,omitempty"` // absent if it is over 64 KiB or not stored
	Repeats bool            `json:"repeats,omitempty"` // the message is the answer of the previous exchange, unchanged

	body string
}

// turns reads the exchanges of a conversation with their findings, and the branches of its history. The conversation that it
// returns has no exchanges yet.
func (s Store) turns(ctx context.Context, id string) (*Conversation, []*Turn, branches, error) {
	var found []rows.Row
	var findings []Finding
	g, both := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		found, err = rows.Read(both, s.Q, "exchanges", byConversation, map[string]string{"id": id})
		return err
	})
	g.Go(func() (err error) {
		findings, err = readFindings(both, s.Q, id)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, nil, nil, err
	}
	if len(found) == 0 {
		return nil, nil, nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	c := &Conversation{ID: id, Truncated: len(found) > maxExchanges}
	found = found[:min(len(found), maxExchanges)]
	c.Count = len(found)
	all := make([]*Turn, len(found))
	byID := map[string]*Turn{}
	longest := 0
	for i, r := range found {
		e := newExchange(r)
		all[i] = &Turn{Exchange: e, Number: i + 1, Count: e.count, New: []New{}}
		byID[e.ID] = all[i]
		longest = max(longest, e.count)
	}
	for _, f := range findings {
		if t := byID[f.Exchange]; t != nil {
			t.Findings = append(t.Findings, f)
		}
	}
	known, err := readBranches(ctx, s.Q, id, longest)
	return c, all, known, err
}

// Conversation reads a conversation with at most limit exchanges: the failed ones, those with findings, and the newest.
func (s Store) Conversation(ctx context.Context, id string, limit int, full bool) (*Conversation, error) {
	c, all, known, err := s.turns(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, i := range selected(all, limit) {
		before := &Turn{Exchange: &Exchange{}}
		if i > 0 {
			before = all[i-1]
		}
		all[i].add(known, before, full)
		c.Exchanges = append(c.Exchanges, all[i])
	}
	if err := c.describe(ctx, s); err != nil {
		return nil, err
	}
	return c, c.compare(ctx, s)
}

// selected returns the positions of at most limit turns: the newest and, for at least half of the limit, the oldest ones
// that failed or have findings, each with the turn before it.
func selected(all []*Turn, limit int) []int {
	chosen := map[int]bool{}
	for i, t := range all {
		if (t.Cause != "" || len(t.Findings) > 0) && len(chosen)+2 <= max(limit/2, 2) && len(all) > limit {
			chosen[i], chosen[max(i-1, 0)] = true, true
		}
	}
	for i := len(all) - 1; i >= 0 && len(chosen) < limit; i-- {
		chosen[i] = true
	}
	var positions []int
	for i := range all {
		if chosen[i] {
			positions = append(positions, i)
		}
	}
	return positions
}

// add determines the messages that t adds to before.
func (t *Turn) add(known branches, before *Turn, full bool) {
	if !t.stored() || t.branch == "" {
		return
	}
	ids, old := t.ids(known, false), before.ids(known, false)
	if t.TextsDropped != "" && strings.Join(ids[len(t.lead):], "") == "" {
		t.miss("request and answer: %s", t.WhyDropped())
		return
	}
	for t.Kept < len(ids) && t.Kept < len(old) && ids[t.Kept] != "" && ids[t.Kept] == old[t.Kept] {
		t.Kept++
	}
	t.Added = len(ids) - t.Kept
	var marked []int
	for i := range t.Findings {
		marked = append(marked, t.Findings[i].Message-t.Kept)
	}
	for i, ok := range (&view{full: full}).gaps(t.Added, 3, 6, nearMarked, marked) {
		if ok {
			t.New = append(t.New, New{Index: t.Kept + i, Text: "(not stored)", body: ids[t.Kept+i]})
		}
	}
}

// describe reads the new messages and the answers.
func (c *Conversation) describe(ctx context.Context, s Store) error {
	places, senders, answers := map[string][]*New{}, map[string]*Turn{}, map[string][]*Turn{} // by content: equal messages and answers are stored once
	var messageIDs, answerIDs []string
	for _, t := range c.Exchanges {
		t.withheld = s.Withhold.applies(t.Exchange)
		for i := range t.New {
			n := &t.New[i]
			id := n.body
			if n.body = ""; id == "" {
				continue
			}
			if places[id] == nil {
				messageIDs = append(messageIDs, id)
			}
			places[id], senders[id] = append(places[id], n), t
		}
		if t.answer != "" {
			if answers[t.answer] == nil {
				answerIDs = append(answerIDs, t.answer)
			}
			answers[t.answer] = append(answers[t.answer], t)
		}
	}
	if err := readContents(ctx, s.Q, messageIDs, maxDescribed, func(id, body string) {
		body = s.Withhold.message(senders[id].Exchange, body)
		for _, n := range places[id] {
			n.Text, n.body = records.Describe([]byte(body), describedText), body
			if json.Valid([]byte(body)) {
				n.Message = json.RawMessage(body)
			}
		}
	}); err != nil {
		return err
	}
	if err := readContents(ctx, s.Q, answerIDs, maxAnswer, func(id, body string) {
		for _, t := range answers[id] {
			if len(body) < maxAnswer {
				t.Answer = records.Answer(wire.Dialect(t.Dialect), []byte(s.Withhold.answer(t.Exchange, body)))
			}
		}
	}); err != nil {
		return err
	}
	for i, t := range c.Exchanges {
		if i == 0 || c.Exchanges[i-1].Number+1 != t.Number {
			continue
		}
		for j := range t.New {
			n := &t.New[j]
			n.Repeats = n.Message != nil && slices.ContainsFunc(c.Exchanges[i-1].Answer, func(m json.RawMessage) bool {
				return !differs(diff(fields([]Place{{Body: m}}), fields([]Place{{Body: n.Message}})))
			})
		}
	}
	return nil
}

const describedText = 100 // maximum characters of each text of New.Text

// compare sets the comparisons of the first findings.
func (c *Conversation) compare(ctx context.Context, s Store) error {
	n := 0
	for _, t := range c.Exchanges {
		if n == maxCompared || t.branch == "" || !slices.ContainsFunc(t.Findings, func(f Finding) bool { return f.comparable() }) {
			continue
		}
		n++
		// Only the comparisons are retained.
		e := *t.Exchange
		if err := e.fill(ctx, s); err != nil {
			return err
		}
		if err := s.compare(ctx, &e); err != nil {
			return err
		}
		t.Missing = e.Missing
	}
	return nil
}

// Text writes c for a terminal: each exchange with the messages it added, its answer and its findings.
func (c *Conversation) Text(w io.Writer, o Options) error {
	v := o.view()
	v.WriteString(v.Bold(fmt.Sprintf("conversation %s, %s", terminal.Clip(c.ID, 200), quantity.Plural(c.Count, "call"))) + "\n")
	if c.Truncated {
		v.linef(0, 0, "There are more calls; only the first %s are read.", quantity.Count(maxExchanges))
	}
	shaped, withheld, shown := false, false, 0
	for _, t := range c.Exchanges {
		v.left(t.Number - 1 - shown)
		v.turn(t)
		shown = t.Number
		withheld = withheld || t.withheld
		for i := range t.New {
			shaped = shaped || shapedText.MatchString(t.New[i].body)
		}
	}
	v.left(c.Count - shown)
	switch {
	case withheld:
		v.shapes(&Exchange{withheld: true})
	case shaped:
		v.shapes(&Exchange{Exchange: stored.Exchange{Capture: "shape"}})
	}
	v.WriteString("\n")
	v.linef(0, 2, "More: %s; %s for whole texts; %s NAME for the replies of a tool.", v.command("EXCHANGE"), v.option("full"), v.option("tool"))
	_, err := io.WriteString(w, v.String())
	return err
}

// left writes the number of exchanges left out.
func (v *view) left(n int) {
	if n > 0 {
		v.WriteString("\n")
		v.linef(0, 0, "… %s left out, without failures or beyond the limit; see %s", quantity.Plural(n, "call"), v.option("limit"))
	}
}

// turn writes an exchange of a conversation.
func (v *view) turn(t *Turn) {
	fmt.Fprintf(v, "\n%s  %s\n", v.Bold(v.Time(t.StartedAt)), t.ID)
	v.line(2, 2, strings.TrimSuffix(t.sender()+"; "+terminal.Clip(t.Model, shownLabel), "; "))
	v.outcome(t.Exchange)
	if t.Cache != nil && t.Cache.Missed > 0 {
		v.fact("prompt cache", t.Cache.String())
	}
	v.fact("error", v.excerpt(t.ErrorText, t.Findings, shownText))
	for _, m := range t.Missing {
		v.linef(2, 2, "NOT STORED: %s", m)
	}
	marked := map[int]bool{}
	for i := range t.Findings {
		marked[t.Findings[i].Message] = true
	}
	if t.Kept > 0 {
		v.linef(8, 0, "%s unchanged", quantity.Plural(t.Kept, "message"))
	}
	next := t.Kept
	for i := range t.New {
		n := &t.New[i]
		if n.Index > next {
			v.linef(8, 0, "… %s left out", quantity.Plural(n.Index-next, "message"))
		}
		next = n.Index + 1
		switch {
		case n.Repeats && !marked[n.Index] && !v.full:
			fmt.Fprintf(v, "    %3d %-*s %s\n", n.Index, roleWidth, role(n.body), v.Dim("the answer above, unchanged"))
		default:
			v.numbered(2, n.Index, n.body, marked[n.Index])
		}
	}
	for _, m := range t.Answer {
		v.message(2, "<", "", string(m))
	}
	for i := range t.Findings {
		v.finding(4, &t.Findings[i])
	}
	v.explained = nil
}

func role(body string) string {
	m, _ := records.ParseMessage([]byte(body))
	return terminal.Clip(strings.TrimSpace(m.Role), 2*roleWidth)
}
