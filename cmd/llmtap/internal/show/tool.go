package show

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A ToolCall is a call of a tool with its arguments and its reply.
type ToolCall struct {
	AskedAt    time.Time
	Exchange   string // the exchange whose answer made the call
	ToolName   string
	ToolCallID string
	State      string // see tool_calls.state
	Arguments  string // as captured; "" if not stored
	AnsweredAt time.Time
	AnsweredBy string // the exchange whose request contained the reply first
	Message    int    // index of the reply in that request
	Reply      string // as captured; "" if not stored
	replied    bool
}

var (
	callsOfTool = rows.Statement(`SELECT * FROM
		(
			SELECT asked_at, exchange_id, tool_name, tool_call_id, state, answered_at, answered_by FROM tool_calls FINAL
			WHERE conversation_id = {conversation:String} AND (tool_name = {tool:String} OR tool_call_id = {tool:String})
				AND ({exchange:String} IN ('', exchange_id, answered_by))
			ORDER BY asked_at DESC LIMIT {limit:UInt32}
		) ORDER BY asked_at, exchange_id`)
	answersAmong = rows.Statement(`SELECT exchange_id, dialect, capture, answer, length(lead) AS lead FROM exchanges FINAL
		WHERE conversation_id = {conversation:String} AND exchange_id IN {exchanges:Array(String)}`)
	addedAmong = rows.Statement(`SELECT exchange_id, position, message_id FROM history FINAL
		WHERE conversation_id = {conversation:String} AND exchange_id IN {exchanges:Array(String)} AND message_id != ''`)
	conversationOf = rows.Statement("SELECT conversation_id FROM exchanges FINAL WHERE exchange_id = {id:String} LIMIT 1")
	toolsOf        = rows.Statement("SELECT DISTINCT toString(tool_name) AS tool_name FROM tool_calls FINAL WHERE conversation_id = {id:String} ORDER BY tool_name LIMIT 50")
)

// ToolCalls returns the newest limit calls of a tool, oldest first. The tool is a function name or a call id. If exchange is
// not "", only calls that it made or whose reply it sent are returned.
func (s Store) ToolCalls(ctx context.Context, conversation, exchange, tool string, limit int) (calls []ToolCall, more bool, err error) {
	params := map[string]string{"conversation": conversation, "exchange": exchange, "tool": tool, "limit": fmt.Sprint(limit + 1)}
	found, err := rows.Read(ctx, s.Q, "tool calls", callsOfTool, params)
	if err != nil {
		return nil, false, err
	}
	if more = len(found) > limit; more {
		found = found[1:]
	}
	var exchanges []string
	for _, r := range found {
		c := ToolCall{
			AskedAt: r.Time("asked_at"), Exchange: r.Text("exchange_id"), ToolName: r.Text("tool_name"), ToolCallID: r.Text("tool_call_id"), State: r.Text("state"),
			AnsweredAt: r.Time("answered_at"), AnsweredBy: r.Text("answered_by"), Message: -1,
		}
		calls = append(calls, c)
		for _, id := range []string{c.Exchange, c.AnsweredBy} {
			if id != "" && !slices.Contains(exchanges, id) {
				exchanges = append(exchanges, id)
			}
		}
	}
	if len(calls) == 0 {
		return nil, false, nil
	}
	return calls, more, s.readTexts(ctx, calls, conversation, exchanges)
}

// readTexts sets the arguments and replies of calls.
func (s Store) readTexts(ctx context.Context, calls []ToolCall, conversation string, exchanges []string) error {
	params := map[string]string{"conversation": conversation, "exchanges": rows.TextsParam(exchanges)}
	found, err := rows.Read(ctx, s.Q, "answers", answersAmong, params)
	if err != nil {
		return err
	}
	answers, lead, senders := map[string][]rows.Row{}, map[string]int{}, map[string]*Exchange{} // equal answers are stored once
	var ids []string
	for _, r := range found {
		x := r.Text("exchange_id")
		lead[x], senders[x] = r.Int("lead"), &Exchange{Exchange: stored.Exchange{Dialect: r.Text("dialect"), Capture: r.Text("capture")}}
		if id := r.Text("answer"); id != "" {
			answers[id] = append(answers[id], r)
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if err := readContents(ctx, s.Q, slices.Compact(ids), 0, func(id, body string) {
		for _, r := range answers[id] {
			x := r.Text("exchange_id")
			for _, m := range records.Answer(wire.Dialect(r.Text("dialect")), []byte(s.Withhold.answer(senders[x], body))) {
				setArguments(calls, x, m)
			}
		}
	}); err != nil {
		return err
	}
	found, err = rows.Read(ctx, s.Q, "replies", addedAmong, params)
	if err != nil {
		return err
	}
	places := map[string][]rows.Row{}
	ids = ids[:0]
	for _, r := range found {
		id := r.Text("message_id")
		places[id] = append(places[id], r)
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return readContents(ctx, s.Q, slices.Compact(ids), 0, func(id, body string) {
		for _, r := range places[id] {
			x := r.Text("exchange_id")
			setReplies(calls, x, lead[x]+r.Int("position"), s.Withhold.message(cmp.Or(senders[x], &Exchange{}), body))
		}
	})
}

// setArguments sets the arguments of the calls in a message of an answer.
func setArguments(calls []ToolCall, exchange string, message []byte) {
	m, _ := records.ParseMessage(message)
	for i := range calls {
		c := &calls[i]
		for _, p := range m.Calls() {
			if c.Exchange == exchange && c.Arguments == "" && (p.ID == c.ToolCallID && p.ID != "" || p.ID == "" && p.Name == c.ToolName) {
				c.Arguments = plain(&p)
			}
		}
	}
}

// setReplies sets the replies of the calls that a message of a request answers, and arguments from copies of the calls.
func setReplies(calls []ToolCall, exchange string, index int, body string) {
	m, _ := records.ParseMessage([]byte(body))
	for i := range calls {
		c := &calls[i]
		if c.AnsweredBy != exchange {
			continue
		}
		for _, p := range m.Parts {
			if p.ID != c.ToolCallID && (p.ID != "" || p.Name != c.ToolName) {
				continue
			}
			switch {
			case p.Kind == records.Call && c.Arguments == "":
				c.Arguments = plain(&p)
			case p.Kind == records.Reply && (!c.replied || index < c.Message):
				c.Reply, c.Message, c.replied = plain(&p), index, true
			}
		}
	}
}

func (s Store) writeTool(ctx context.Context, w io.Writer, exchange, conversation string, o Options) error {
	if exchange != "" {
		found, err := rows.Read(ctx, s.Q, "exchange", conversationOf, map[string]string{"id": exchange})
		if err != nil {
			return err
		}
		for _, r := range found {
			conversation = r.Text("conversation_id")
		}
	}
	calls, more, err := s.ToolCalls(ctx, conversation, exchange, o.Tool, o.Limit)
	if err != nil {
		return err
	}
	if len(calls) == 0 {
		return s.unknownTool(ctx, conversation, o.Tool)
	}
	if o.Format != command.Text {
		return table.Write(w, toolRows(calls), o.Format, o.Style)
	}
	v := o.view()
	v.linef(0, 2, "%s of %s in conversation %s", quantity.Plural(len(calls), "call"), terminal.Clip(o.Tool, maxID), terminal.Clip(conversation, shownLabel))
	if more {
		v.linef(0, 2, "Only the newest calls are shown; see %s.", v.option("limit"))
	}
	for i := range calls {
		v.toolCall(&calls[i])
	}
	_, err = io.WriteString(w, v.String())
	return err
}

// toolCall writes a call with its arguments and its reply.
func (v *view) toolCall(c *ToolCall) {
	title := strings.TrimSpace(terminal.Clip(c.ToolName, maxID) + "  " + terminal.Clip(c.ToolCallID, shownLabel))
	fmt.Fprintf(v, "\n%s  %s\n", v.Bold(title), c.State)
	v.labeled(2, 10, "called", v.Time(c.AskedAt)+", LLM call "+c.Exchange)
	v.text(4, notStored(c.Arguments, "arguments"), shownError)
	if c.AnsweredBy == "" {
		v.linef(2, 2, "no reply")
		return
	}
	at := ""
	if c.Message >= 0 {
		at = fmt.Sprintf(", message %d", c.Message)
	}
	v.labeled(2, 10, "returned", v.Time(c.AnsweredAt)+", LLM call "+c.AnsweredBy+at)
	if c.replied && c.Reply == "" {
		v.linef(4, 0, "(empty)")
		return
	}
	v.text(4, notStored(c.Reply, "reply"), shownError)
}

func notStored(text, what string) string {
	if text == "" {
		return "(the " + what + " are not stored)"
	}
	return text
}

// toolRows returns one row per call.
func toolRows(calls []ToolCall) *clickhouse.Result {
	res := &clickhouse.Result{}
	for _, name := range []string{
		"asked_at", "exchange_id", "tool_name", "tool_call_id", "state", "arguments", "answered_at", "answered_by", "message_index", "reply",
	} {
		res.Columns = append(res.Columns, clickhouse.Column{Name: name})
	}
	for i := range calls {
		c := &calls[i]
		row := []any{c.AskedAt, c.Exchange, c.ToolName, c.ToolCallID, c.State, c.Arguments, nil, nil, nil, nil}
		if c.AnsweredBy != "" {
			row[6], row[7] = c.AnsweredAt, c.AnsweredBy
		}
		if c.replied {
			row[8], row[9] = c.Message, c.Reply
		}
		res.Rows = append(res.Rows, row)
	}
	return res
}

// unknownTool returns an error that lists the tools of the conversation.
func (s Store) unknownTool(ctx context.Context, conversation, tool string) error {
	found, err := rows.Read(ctx, s.Q, "tools", toolsOf, map[string]string{"id": conversation})
	if err != nil {
		return err
	}
	var names []string
	for _, r := range found {
		names = append(names, r.Text("tool_name"))
	}
	if len(names) == 0 {
		return fmt.Errorf("no call of %q; no answer of the conversation made a call", tool)
	}
	return fmt.Errorf("no call of %q; the tools called are %s", tool, list(names))
}
