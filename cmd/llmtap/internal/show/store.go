package show

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
)

const (
	minPrefix      = 8    // characters of an id that is not whole
	maxCandidates  = 5    // that an ambiguous id names
	maxExchanges   = 1000 // of a conversation
	maxDescribed   = 64 << 10
	describedText  = 100 // bytes of each text of a message in a conversation
	exchangeByID   = `SELECT ` + exchangeColumns + ` FROM exchanges_final WHERE exchange_id = {id:String} LIMIT 1`
	ofConversation = `SELECT ` + exchangeColumns + ` FROM exchanges_final WHERE conversation_id = {id:String} ORDER BY started_at, seq, exchange_id LIMIT 1001`
)

// ErrUnknown is an id that nothing stored has.
var ErrUnknown = errors.New("nothing stored has this id")

// A Store reads what is stored.
type Store struct{ Q Querier }

// A Conversation is the exchanges of one conversation in order.
type Conversation struct {
	ID        string  `json:"conversation_id"`
	Exchanges []*Turn `json:"exchanges"`
	Truncated bool    `json:"truncated,omitempty"` // there are more than 1,000
}

// A Turn is an exchange with what it added.
type Turn struct {
	*Exchange
	Count int   `json:"messages"` // in the request
	Kept  int   `json:"kept"`     // of them at the start, as the exchange before it sent them
	New   []New `json:"new"`      // the messages after these
}

// A New is a message that the exchange before did not send at its place.
type New struct {
	Index int    `json:"index"`
	Text  string `json:"text"` // who, what it calls and answers, the start of its text
}

// Resolve finds what id names: an exchange, a conversation, or either by the first 8 characters or more, when only one
// begins so.
func (s Store) Resolve(ctx context.Context, id string) (exchange, conversation string, err error) {
	for _, column := range []string{"exchange_id", "conversation_id"} {
		found, err := ask(ctx, s.Q, column, "SELECT 1 FROM exchanges WHERE "+column+" = {id:String} LIMIT 1", "id", id)
		switch {
		case err != nil:
			return "", "", err
		case len(found) > 0 && column == "exchange_id":
			return id, "", nil
		case len(found) > 0:
			return "", id, nil
		}
	}
	if utf8.RuneCountInString(id) < minPrefix {
		return "", "", fmt.Errorf("%w: %q, and it is too short to be the start of one: that takes %d characters", ErrUnknown, id, minPrefix)
	}
	var all []string
	for _, column := range []string{"exchange_id", "conversation_id"} {
		found, err := ask(ctx, s.Q, column, "SELECT DISTINCT "+column+" AS id FROM exchanges WHERE startsWith("+column+", {id:String}) ORDER BY id LIMIT 6", "id", id)
		if err != nil {
			return "", "", err
		}
		for _, r := range found {
			if column == "exchange_id" {
				exchange = r.text("id")
			} else {
				conversation = r.text("id")
			}
			all = append(all, r.text("id"))
		}
	}
	switch {
	case len(all) == 0:
		return "", "", fmt.Errorf("%w, as exchange or conversation: %q; it may be older than what is kept", ErrUnknown, id)
	case len(all) > maxCandidates:
		all[maxCandidates] = "…"
		fallthrough
	case len(all) > 1:
		return "", "", fmt.Errorf("%q is the start of several ids: %s", id, strings.Join(all[:min(len(all), maxCandidates+1)], ", "))
	}
	return exchange, conversation, nil
}

// Exchange reads an exchange and puts its request together.
func (s Store) Exchange(ctx context.Context, id string) (*Exchange, error) {
	found, err := ask(ctx, s.Q, "exchange", exchangeByID, "id", id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	e := newExchange(found[0])
	all, err := findings(ctx, s.Q, e.Conversation)
	if err != nil {
		return nil, err
	}
	e.own(all)
	return e, e.fill(ctx, s.Q)
}

// own takes the findings of e, and those before it, from all of its conversation.
func (e *Exchange) own(all []Finding) {
	for i := range all {
		switch f := &all[i]; {
		case f.Exchange == e.ID:
			e.Findings = append(e.Findings, *f)
		case f.Severity != "signal" && f.Message < e.count && f.FirstSeen.Before(e.storedAt):
			e.Earlier = append(e.Earlier, *f)
		}
	}
}

// Conversation reads a conversation.
func (s Store) Conversation(ctx context.Context, id string) (*Conversation, error) {
	found, err := ask(ctx, s.Q, "exchanges", ofConversation, "id", id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	c := &Conversation{ID: id, Truncated: len(found) > maxExchanges}
	all, err := findings(ctx, s.Q, id)
	if err != nil {
		return nil, err
	}
	longest := 0
	for _, r := range found[:min(len(found), maxExchanges)] {
		e := newExchange(r)
		for i := range all {
			if all[i].Exchange == e.ID {
				e.Findings = append(e.Findings, all[i])
			}
		}
		longest = max(longest, e.count)
		c.Exchanges = append(c.Exchanges, &Turn{Exchange: e, Count: e.count, New: []New{}})
	}
	known, err := history(ctx, s.Q, id, longest)
	if err != nil {
		return nil, err
	}
	return c, c.describe(ctx, s.Q, known)
}

// describe says what each exchange added.
func (c *Conversation) describe(ctx context.Context, q Querier, known branches) error {
	var before []string
	places := map[string][]*New{}
	var want []string
	for _, t := range c.Exchanges {
		if !t.stored() || t.branch == "" {
			continue
		}
		ids := t.ids(known, false)
		for t.Kept < len(ids) && t.Kept < len(before) && ids[t.Kept] != "" && ids[t.Kept] == before[t.Kept] {
			t.Kept++
		}
		t.New = make([]New, len(ids)-t.Kept)
		for i, id := range ids[t.Kept:] {
			n := &t.New[i]
			if n.Index, n.Text = t.Kept+i, "(not stored)"; id != "" {
				if places[id] == nil {
					want = append(want, id)
				}
				places[id] = append(places[id], n)
			}
		}
		before = ids
	}
	return contents(ctx, q, want, maxDescribed, func(id, body string) {
		text := lint.Describe([]byte(body), describedText)
		for _, n := range places[id] {
			n.Text = text
		}
	})
}
