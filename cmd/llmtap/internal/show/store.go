package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
)

const (
	minPrefix      = 8        // minimum characters of an id prefix
	maxCandidates  = 5        // matches listed for an ambiguous prefix
	maxExchanges   = 1000     // exchanges listed of a conversation
	maxDescribed   = 64 << 10 // maximum bytes read of each message of a conversation
	describedText  = 100      // maximum characters of each text of these messages
	byExchange     = `SELECT ` + exchangeColumns + ` FROM exchanges_final WHERE exchange_id = {id:String} LIMIT 1`
	byConversation = `SELECT ` + exchangeColumns + ` FROM exchanges_final WHERE conversation_id = {id:String} ORDER BY started_at, seq, exchange_id LIMIT 1001`
)

// ErrUnknown means that no stored exchange or conversation has the id.
var ErrUnknown = errors.New("no stored exchange or conversation has this id")

// A Store reads exchanges and conversations from ClickHouse.
type Store struct{ Q rows.Querier }

// A Conversation is a stored conversation with its exchanges in order.
type Conversation struct {
	ID        string  `json:"conversation_id"`
	Exchanges []*Turn `json:"exchanges"`
	Truncated bool    `json:"truncated,omitempty"` // there are more than 1,000 exchanges
}

// A Turn is an exchange with the messages it added.
type Turn struct {
	*Exchange
	Count int   `json:"messages"` // number of messages in the request
	Kept  int   `json:"kept"`     // messages at the start that are the same as in the previous exchange
	New   []New `json:"new"`      // the other messages
}

// A New is a message that differs from the message at the same position in the previous exchange.
type New struct {
	Index int    `json:"index"`
	Text  string `json:"text"` // role, calls, replies, the start of the text
}

// Resolve finds the exchange or the conversation with this id. A unique prefix of the id of at least 8 characters suffices.
func (s Store) Resolve(ctx context.Context, id string) (exchange, conversation string, err error) {
	params := map[string]string{"id": id}
	for _, column := range []string{"exchange_id", "conversation_id"} {
		found, err := rows.Read(ctx, s.Q, column, "SELECT 1 FROM exchanges WHERE "+column+" = {id:String} LIMIT 1", params)
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
		return "", "", fmt.Errorf("%w: %q; a prefix must have at least %d characters", ErrUnknown, id, minPrefix)
	}
	var all []string
	for _, column := range []string{"exchange_id", "conversation_id"} {
		found, err := rows.Read(ctx, s.Q, column, "SELECT DISTINCT "+column+" AS id FROM exchanges WHERE startsWith("+column+", {id:String}) ORDER BY id LIMIT 6", params)
		if err != nil {
			return "", "", err
		}
		for _, r := range found {
			if column == "exchange_id" {
				exchange = r.Text("id")
			} else {
				conversation = r.Text("id")
			}
			all = append(all, r.Text("id"))
		}
	}
	switch {
	case len(all) == 0:
		return "", "", fmt.Errorf("%w: %q; it may be older than the retention", ErrUnknown, id)
	case len(all) > maxCandidates:
		all[maxCandidates] = "…"
		fallthrough
	case len(all) > 1:
		return "", "", fmt.Errorf("%q is a prefix of several ids: %s", id, strings.Join(all[:min(len(all), maxCandidates+1)], ", "))
	}
	return exchange, conversation, nil
}

// Exchange reads an exchange and reassembles its request.
func (s Store) Exchange(ctx context.Context, id string) (*Exchange, error) {
	found, err := rows.Read(ctx, s.Q, "exchange", byExchange, map[string]string{"id": id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	e := newExchange(found[0])
	all, err := readFindings(ctx, s.Q, e.Conversation)
	if err != nil {
		return nil, err
	}
	e.addFindings(all)
	return e, e.fill(ctx, s.Q)
}

// addFindings sets the findings of e and its earlier findings. all contains the findings of the conversation.
func (e *Exchange) addFindings(all []Finding) {
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
	found, err := rows.Read(ctx, s.Q, "exchanges", byConversation, map[string]string{"id": id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	c := &Conversation{ID: id, Truncated: len(found) > maxExchanges}
	all, err := readFindings(ctx, s.Q, id)
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
	known, err := readBranches(ctx, s.Q, id, longest)
	if err != nil {
		return nil, err
	}
	return c, c.describe(ctx, s.Q, known)
}

// describe fills in the messages that each exchange added.
func (c *Conversation) describe(ctx context.Context, q rows.Querier, known branches) error {
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
	return readContents(ctx, q, want, maxDescribed, func(id, body string) {
		text := records.Describe([]byte(body), describedText)
		for _, n := range places[id] {
			n.Text = text
		}
	})
}

// Body is the format of Write that writes only the request of an exchange.
const Body = "body"

// Write writes the exchange or conversation with this id or prefix in a format: text, json or Body. If parts of an exchange
// are not stored, it writes the others and returns an error.
func (s Store) Write(ctx context.Context, w io.Writer, id, format string) error {
	exchange, conversation, err := s.Resolve(ctx, id)
	switch {
	case err != nil:
		return err
	case exchange != "":
		return s.writeExchange(ctx, w, exchange, format)
	case format == Body:
		return command.BadInputf("%q is a conversation: --format body requires an exchange", id)
	}
	c, err := s.Conversation(ctx, conversation)
	if err != nil {
		return err
	}
	if format == command.JSON {
		return c.JSON(w)
	}
	return c.Text(w)
}

func (s Store) writeExchange(ctx context.Context, w io.Writer, id, format string) error {
	e, err := s.Exchange(ctx, id)
	if err != nil {
		return err
	}
	body, complete := e.Body()
	switch {
	case format == Body && complete:
		_, err = fmt.Fprintln(w, body)
	case format == command.JSON:
		err = e.JSON(w)
	case format == command.Text:
		err = e.Text(w)
	}
	if err != nil || complete {
		return err
	}
	return fmt.Errorf("exchange %s is incomplete; not stored: %s", id, e.Missing[0])
}
