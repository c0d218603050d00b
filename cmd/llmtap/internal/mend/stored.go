package mend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ErrNotStored means that the bodies of a conversation are not stored.
var ErrNotStored = errors.New("the newest request is not stored whole")

var newestCall = rows.Statement(`SELECT exchange_id FROM exchanges FINAL
	WHERE conversation_id = {id:String} ORDER BY stored_at DESC, exchange_id DESC LIMIT 1`)

// Stored returns the newest request of a stored conversation, with the answers of its earlier exchanges. id may be a prefix.
func Stored(ctx context.Context, q rows.Querier, id string) (*History, error) {
	store := show.Store{Q: q}
	_, conversation, err := store.Resolve(ctx, id)
	if err != nil {
		return nil, err
	}
	if conversation == "" {
		return nil, fmt.Errorf("%w: %q is a call without a conversation", show.ErrUnknown, id)
	}
	newest, err := rows.Read(ctx, q, "newest call", newestCall, map[string]string{"id": conversation})
	if err != nil {
		return nil, err
	}
	if len(newest) == 0 {
		return nil, fmt.Errorf("%w: %q", show.ErrUnknown, id)
	}
	e, err := store.Exchange(ctx, newest[0].Text("exchange_id"))
	if err != nil {
		return nil, err
	}
	body, ok := e.Body()
	if !ok {
		return nil, fmt.Errorf("%w: call %s lacks %s", ErrNotStored, e.ID, strings.Join(e.Missing, "; "))
	}
	why := cause.Cause{ID: e.Cause, Class: cause.Class(e.Cause), Known: e.CauseKnown}
	h := &History{
		Source: "conversation " + conversation, Body: []byte(body), Status: e.Status, Cause: why, Refused: e.Status >= 400 && why.OfContent(e.Status), Shape: e.Capture == "shape",
		Target: wire.Target{Dialect: wire.Dialect(e.Dialect), Variant: wire.Variant(e.Variant), Model: e.Model},
	}
	answers, err := store.Answers(ctx, conversation)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		h.Answers = append(h.Answers, []byte(a))
	}
	return h, nil
}
