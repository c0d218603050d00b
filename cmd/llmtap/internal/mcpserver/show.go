package mcpserver

import (
	"context"
	"errors"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/dashboards/access"
)

const showDoc = `Show a stored LLM call or conversation by id: its messages with roles, ids and tools, the broken message marked with > and its defect, root cause, first bad version and fix below it. Lines marked - show what the model said, lines marked + what the request contains instead. Message indexes count from 0.`

type showInput struct {
	ID     string `json:"id" jsonschema:"id of a call or a conversation; a unique prefix of 8 characters is enough"`
	Tool   string `json:"tool,omitempty" jsonschema:"show the calls of this tool, or the call with this id, with their replies"`
	Full   bool   `json:"full,omitempty" jsonschema:"do not shorten texts and lists of messages"`
	Limit  int    `json:"limit,omitempty" jsonschema:"maximum number of calls of a conversation, failures first, then the newest; or of tool calls; default 10"`
	Offset int    `json:"offset,omitempty" jsonschema:"byte of the answer to begin at, to continue an answer"`
}

const (
	defaultLimit = 10
	maxLimit     = 200
)

func (t *tools) show(ctx context.Context, in showInput) (answer, error) {
	switch {
	case strings.TrimSpace(in.ID) == "":
		return answer{}, errors.New("id is empty: whats_wrong, incident and query conversations_hit return ids")
	case in.Limit < 0 || in.Limit > maxLimit:
		return answer{}, errors.New("limit must be from 1 to 200")
	case in.Limit == 0:
		in.Limit = defaultLimit
	}
	if t.Content {
		access.Note(ctx, access.ReadTexts, strings.TrimSpace(in.ID), "")
	}
	var b strings.Builder
	err := t.withStore(ctx, func(q rows.Querier, pages func() string) error {
		o := show.Options{Format: command.Text, Style: style(), Full: in.Full, Limit: in.Limit, Tool: in.Tool, Arguments: true, Pages: pages}
		err := show.Store{Q: q, Withhold: t.withhold}.Write(ctx, &b, strings.TrimSpace(in.ID), o)
		if b.Len() > 0 && ctx.Err() == nil {
			return nil // the text says what is not stored
		}
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return paged(b.String(), in.Offset)
}
