package show

import (
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/records"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	maxCompared = 20 // findings of an exchange, and of a conversation, that are compared with the answer
	comparing   = 4  // findings that are compared at a time: each reads several times
)

var (
	askedBefore = rows.Statement(`SELECT exchange_id, tool_call_id FROM tool_calls FINAL
		WHERE conversation_id = {conversation:String} AND tool_call_id IN {ids:Array(String)} AND exchange_id != {self:String}
			AND asked_at < {at:DateTime64(9, 'UTC')}
		ORDER BY asked_at DESC LIMIT 100`)
	answeredBefore = rows.Statement(`SELECT exchange_id FROM exchanges FINAL
		WHERE conversation_id = {conversation:String} AND exchange_id != {self:String} AND stored_at < {at:DateTime64(9, 'UTC')} AND answer != ''
			AND messages <= {n:UInt32}
		ORDER BY messages DESC, stored_at DESC LIMIT 1`)
	requestBefore = rows.Statement(`SELECT ` + exchangeColumns + ` FROM exchanges FINAL
		WHERE conversation_id = {conversation:String} AND exchange_id != {self:String} AND stored_at < {at:DateTime64(9, 'UTC')} AND branch != ''
		ORDER BY stored_at DESC LIMIT 1`)
	answerOf  = rows.Statement("SELECT dialect, capture, answer FROM exchanges FINAL WHERE exchange_id = {id:String} LIMIT 1")
	answersOf = rows.Statement(`SELECT dialect, answer FROM exchanges FINAL
		WHERE conversation_id = {id:String} AND answer != '' ORDER BY stored_at DESC LIMIT 1000`)
)

// comparable reports whether a comparison explains f.
func (f *Finding) comparable() bool {
	return aboutPairs[f.Rule] || f.RootCause != "" && f.RootCause != session.NoHistory || f.Rule == "history_rewritten"
}

// compare sets the comparisons of the findings of e, whose bodies have been read.
func (s Store) compare(ctx context.Context, e *Exchange) error {
	var request []records.Message
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(comparing)
	for i, n := 0, 0; i < len(e.Findings) && n < maxCompared; i++ {
		if !e.Findings[i].comparable() || len(e.Messages) == 0 {
			continue
		}
		n++
		if request == nil {
			request = make([]records.Message, len(e.Messages))
			for j, m := range e.Messages {
				request[j], _ = records.ParseMessage([]byte(m))
			}
		}
		f := &e.Findings[i]
		g.Go(func() error {
			said, err := s.said(each, e, f, request)
			if err == nil {
				f.Comparison = compare(f, e.ID, said, request, e.Messages)
			}
			return err
		})
	}
	return g.Wait()
}

// said returns what the model said in place of the message with the finding: the answer with the call, or the answer to the
// request that ended before the message. If it is not stored, said returns the message with the call in the request before.
func (s Store) said(ctx context.Context, e *Exchange, f *Finding, request []records.Message) ([]Place, error) {
	if e.Conversation == "" || f.Message >= len(request) {
		return nil, nil
	}
	var ids []string
	if f.ToolCallID != "" {
		ids = append(ids, f.ToolCallID)
	}
	if f.Message >= 0 {
		for _, p := range request[f.Message].Parts {
			if p.ID != "" {
				ids = append(ids, p.ID)
			}
		}
	}
	for at := f.Message - 1; at >= 0 && len(request[f.Message].Replies()) > 0; at-- { // the call of a reply with another id
		if len(request[at].Replies()) > 0 {
			continue
		}
		for _, p := range request[at].Calls() {
			ids = append(ids, p.ID)
		}
		break
	}
	most := f.Message
	if most < 0 {
		most = math.MaxInt32
	}
	params := map[string]string{
		"conversation": e.Conversation, "self": e.ID, "at": rows.TimeParam(e.storedAt), "ids": rows.TextsParam(ids), "n": fmt.Sprint(most),
	}
	var answers []string
	if len(ids) > 0 {
		found, err := rows.Read(ctx, s.Q, "tool calls", askedBefore, params)
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(found, func(a, b rows.Row) int {
			return slices.Index(ids, a.Text("tool_call_id")) - slices.Index(ids, b.Text("tool_call_id"))
		})
		for _, r := range found {
			answers = append(answers, r.Text("exchange_id"))
		}
	}
	if len(answers) == 0 {
		found, err := rows.Read(ctx, s.Q, "answer", answeredBefore, params)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			answers = append(answers, r.Text("exchange_id"))
		}
	}
	if len(answers) > 0 {
		places, err := s.answer(ctx, answers[0])
		if len(places) > 0 || err != nil {
			return places, err
		}
	}
	return s.before(ctx, f, params)
}

// answer returns the messages of the answer of an exchange; none if it is not stored.
func (s Store) answer(ctx context.Context, exchange string) ([]Place, error) {
	found, err := rows.Read(ctx, s.Q, "answer", answerOf, map[string]string{"id": exchange})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	e := &Exchange{Exchange: stored.Exchange{Dialect: found[0].Text("dialect"), Capture: found[0].Text("capture")}}
	var places []Place
	err = readContents(ctx, s.Q, []string{found[0].Text("answer")}, 0, func(_, body string) {
		for _, m := range records.Answer(wire.Dialect(e.Dialect), []byte(s.Withhold.answer(e, body))) {
			places = append(places, Place{exchange, -1, value(string(m))})
		}
	})
	return places, err
}

// Answers returns the messages of the stored answers of a conversation, in order, as requests repeat them. At most the newest
// 1,000 answers are read.
func (s Store) Answers(ctx context.Context, conversation string) (messages []string, err error) {
	found, err := rows.Read(ctx, s.Q, "answers", answersOf, map[string]string{"id": conversation})
	if err != nil {
		return nil, err
	}
	var ids []string
	bodies := map[string]string{}
	for _, r := range found {
		ids = append(ids, r.Text("answer"))
	}
	slices.Sort(ids)
	if err := readContents(ctx, s.Q, slices.Compact(ids), 0, func(id, body string) { bodies[id] = body }); err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(found) {
		for _, m := range records.Answer(wire.Dialect(r.Text("dialect")), []byte(bodies[r.Text("answer")])) {
			messages = append(messages, string(m))
		}
	}
	return messages, nil
}

// before returns the message with the call of f in the request before.
func (s Store) before(ctx context.Context, f *Finding, params map[string]string) ([]Place, error) {
	if f.ToolCallID == "" {
		return nil, nil
	}
	found, err := rows.Read(ctx, s.Q, "request before", requestBefore, params)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	e := newExchange(found[0])
	if err := e.fill(ctx, s); err != nil {
		return nil, err
	}
	for i, body := range e.Messages {
		m, _ := records.ParseMessage([]byte(body))
		if slices.ContainsFunc(m.Calls(), func(p records.Part) bool { return p.ID == f.ToolCallID }) {
			return []Place{{e.ID, i, value(body)}}, nil
		}
	}
	return nil, nil
}
