package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	minPrefix     = 8 // minimum characters of an id prefix
	maxCandidates = 5 // matches listed for an ambiguous prefix
)

var (
	byExchange     = rows.Statement(`SELECT ` + exchangeColumns + ` FROM exchanges FINAL WHERE exchange_id = {id:String} LIMIT 1`)
	isExchange     = rows.Statement(`SELECT argMax(conversation_id, seq) AS conversation FROM exchanges WHERE exchange_id = {id:String} GROUP BY exchange_id`)
	isConversation = rows.Statement("SELECT 1 FROM exchanges WHERE conversation_id = {id:String} LIMIT 1")
	byPrefix       = map[string]string{"exchange_id": withPrefix("exchange_id"), "conversation_id": withPrefix("conversation_id")}
)

func withPrefix(column string) string {
	return rows.Statement("SELECT DISTINCT " + column + " AS id FROM exchanges WHERE startsWith(" + column + ", {id:String}) ORDER BY id LIMIT 6")
}

// ErrUnknown means that no stored exchange or conversation has the id.
var ErrUnknown = errors.New("no stored call or conversation has this id")

// ErrAmbiguous means that a prefix matches several ids.
var ErrAmbiguous = errors.New("is a prefix of several ids")

// A Store reads exchanges and conversations from ClickHouse.
type Store struct {
	Q        rows.Querier
	Withhold *Withholder // nil: texts are returned
}

// Resolve finds the exchange or the conversation with this id. A unique prefix of the id of at least 8 characters suffices.
// With a whole id of an exchange, it also returns the conversation of the exchange, if it has one.
func (s Store) Resolve(ctx context.Context, id string) (exchange, conversation string, err error) {
	params := map[string]string{"id": id}
	var exchanges, conversations []rows.Row
	g, both := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		exchanges, err = rows.Read(both, s.Q, "exchange_id", isExchange, params)
		return err
	})
	g.Go(func() (err error) {
		conversations, err = rows.Read(both, s.Q, "conversation_id", isConversation, params)
		return err
	})
	switch err := g.Wait(); {
	case err != nil:
		return "", "", err
	case len(exchanges) > 0:
		return id, exchanges[0].Text("conversation"), nil
	case len(conversations) > 0:
		return "", id, nil
	}
	if utf8.RuneCountInString(id) < minPrefix {
		return "", "", fmt.Errorf("%w: %q; a prefix must have at least %d characters", ErrUnknown, id, minPrefix)
	}
	var all []string
	for _, column := range []string{"exchange_id", "conversation_id"} {
		found, err := rows.Read(ctx, s.Q, column, byPrefix[column], params)
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
		return "", "", fmt.Errorf("%q %w: %s", id, ErrAmbiguous, strings.Join(all[:min(len(all), maxCandidates+1)], ", "))
	}
	return exchange, conversation, nil
}

// Exchange reads an exchange and reassembles its request.
func (s Store) Exchange(ctx context.Context, id string) (*Exchange, error) {
	return s.exchangeWith(ctx, id, func(context.Context, *Exchange) error { return nil })
}

// Texts is Exchange without findings.
func (s Store) Texts(ctx context.Context, id string) (*Exchange, error) {
	e, err := s.row(ctx, id)
	if err != nil {
		return nil, err
	}
	return e, e.fill(ctx, s)
}

// row reads an exchange without its request.
func (s Store) row(ctx context.Context, id string) (*Exchange, error) {
	found, err := rows.Read(ctx, s.Q, "exchange", byExchange, map[string]string{"id": id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	return newExchange(found[0]), nil
}

// exchangeWith is Exchange. Once the row of the exchange is read, it calls more beside the other reads.
func (s Store) exchangeWith(ctx context.Context, id string, more func(context.Context, *Exchange) error) (*Exchange, error) {
	e, err := s.row(ctx, id)
	if err != nil {
		return nil, err
	}
	var all []Finding
	g, each := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		all, err = readFindings(each, s.Q, e.Conversation)
		return err
	})
	g.Go(func() error { return e.fill(each, s) })
	g.Go(func() error { return more(each, e) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	e.addFindings(all)
	return e, s.compare(ctx, e)
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

// Options are the options of Write.
type Options struct {
	Format string // one of Formats
	Style  *terminal.Style
	Full   bool   // do not shorten texts
	Limit  int    // maximum exchanges of a conversation, or calls of a tool
	Tool   string // function name or call id; "" for the exchange or conversation itself
	// Arguments is set if the reader calls a tool show with arguments instead of a command with flags.
	Arguments bool
	// Pages returns the base URL of the web pages, or "". It is called after the rows were read.
	Pages func() string
}

// writePage writes the address of the web page of an exchange or a conversation.
func (o Options) writePage(w io.Writer, kind, id string) error {
	if o.Pages == nil {
		return nil
	}
	base := o.Pages()
	if base == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "The page: %s/%s/%s\n", base, kind, url.PathEscape(id))
	return err
}

// Body is the format of Write that writes only the request of an exchange.
const Body = "body"

// Formats are the formats of Write.
var Formats = append(slices.Clone(table.Formats), Body)

// Write writes the exchange or conversation with this id or prefix. If parts of an exchange are not stored, it writes the
// others and returns an error.
func (s Store) Write(ctx context.Context, w io.Writer, id string, o Options) error {
	exchange, conversation, err := s.Resolve(ctx, id)
	switch {
	case err != nil:
		return err
	case o.Tool != "" && o.Format == Body:
		return command.BadInputf("--format body requires a call, without --tool")
	case o.Tool != "":
		return s.writeTool(ctx, w, exchange, conversation, o)
	case exchange != "":
		return s.writeExchange(ctx, w, exchange, o)
	case o.Format == Body:
		return command.BadInputf("%q is a conversation: --format body requires a call", id)
	}
	c, err := s.Conversation(ctx, conversation, o.Limit, o.Full)
	if err != nil {
		return err
	}
	switch o.Format {
	case command.JSON:
		return command.WriteJSON(w, c)
	case command.JSONL:
		for _, t := range c.Exchanges {
			line, err := t.object(ctx, s)
			if err != nil {
				return err
			}
			if err := writeLine(w, line); err != nil {
				return err
			}
		}
		return nil
	case command.CSV:
		all := make([]*Exchange, len(c.Exchanges))
		for i, t := range c.Exchanges {
			all[i] = t.Exchange
		}
		return table.Write(w, exchangeRows(all), o.Format, o.Style)
	}
	if err := c.Text(w, o); err != nil {
		return err
	}
	return o.writePage(w, "conversation", conversation)
}

func (s Store) writeExchange(ctx context.Context, w io.Writer, id string, o Options) error {
	e, err := s.Exchange(ctx, id)
	if err != nil {
		return err
	}
	body, complete := e.Body()
	switch {
	case o.Format == Body && complete:
		_, err = fmt.Fprintln(terminal.Exact(w), body)
	case o.Format == command.JSON:
		err = command.WriteJSON(w, e.object())
	case o.Format == command.JSONL:
		err = writeLine(w, e.object())
	case o.Format == command.CSV:
		err = table.Write(w, exchangeRows([]*Exchange{e}), o.Format, o.Style)
	case o.Format == command.Text:
		if err = e.Text(w, o); err == nil {
			err = o.writePage(w, "exchange", id)
		}
	}
	if err != nil || complete || e.withheld || e.degraded && o.Format != Body {
		return err
	}
	return fmt.Errorf("call %s is incomplete; not stored: %s", id, e.Missing[0])
}

// writeLine writes v as one line of JSON.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// exchangeRows returns one row per exchange, with its first finding that has a root cause.
func exchangeRows(all []*Exchange) *clickhouse.Result {
	res := &clickhouse.Result{}
	for _, name := range []string{
		"exchange_id", "conversation_id", "started_at", "service", "service_version", "environment", "stage", "model", "status", "duration", "cause", "root_cause",
		"messages", "input_tokens", "output_tokens", "rule_id", "severity", "message_index", "tool_call_id", "summary", "error_text",
	} {
		res.Columns = append(res.Columns, clickhouse.Column{Name: name})
	}
	for _, e := range all {
		row := []any{
			e.ID, e.Conversation, e.StartedAt, e.Service, e.ServiceVersion, e.Environment, e.Stage, e.Model, e.Status, e.Seconds, e.Cause, e.RootCause,
			e.count, e.InputTokens, e.OutputTokens, nil, nil, nil, nil, nil, e.ErrorText,
		}
		for i := range e.Findings {
			if f := &e.Findings[i]; row[15] == nil || f.RootCause != "" && f.RootCause == e.RootCause {
				copy(row[15:], []any{f.Rule, f.Severity, f.Message, f.ToolCallID, f.Summary})
			}
		}
		res.Rows = append(res.Rows, row)
	}
	return res
}
