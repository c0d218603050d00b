package show

import (
	"context"
	"fmt"
)

const (
	maxDepth   = 1000    // branches that a message is looked for on
	maxIDs     = 500     // contents read by one query
	maxRequest = 1 << 28 // bytes of a request that is put together
)

// A branch is what is stored of a history: its own messages, and how many it shares with its parent.
type branch struct {
	parent string
	shared int
	ids    map[int]string // of contents, by position
}

type branches map[string]*branch

// history reads the branches of a conversation, of each the first n positions.
func history(ctx context.Context, q Querier, conversation string, n int) (branches, error) {
	found, err := ask(ctx, q, "history", `SELECT branch, position, message_id, parent, shared FROM history_final
		WHERE conversation_id = {id:String} AND position < {n:UInt32}`, "id", conversation, "n", fmt.Sprint(n))
	if err != nil {
		return nil, err
	}
	all := branches{}
	for _, r := range found {
		b := all[r.text("branch")]
		if b == nil {
			b = &branch{ids: map[int]string{}}
			all[r.text("branch")] = b
		}
		// All rows of a branch have the same parent, but for those of a process that knew it from replay, which has none.
		if p := r.text("parent"); p != "" {
			b.parent, b.shared = p, r.number("shared")
		}
		b.ids[r.number("position")] = r.text("message_id")
	}
	return all, nil
}

// find returns the content at a position of a branch: its own, else that of the branch it shares the position with.
func (all branches) find(name string, position int) (id string, ok bool) {
	for range maxDepth {
		b := all[name]
		if b == nil {
			return "", false
		}
		if id, ok = b.ids[position]; ok {
			return id, true
		}
		if position >= b.shared || b.parent == name {
			return "", false
		}
		name = b.parent
	}
	return "", false
}

// contents reads bodies by id, of each the first n bytes; 0 is all. Those that are not stored are not among them.
func contents(ctx context.Context, q Querier, ids []string, n int, each func(id, body string)) error {
	column := "any(body)"
	if n > 0 {
		column = fmt.Sprintf("any(substring(body, 1, %d))", n)
	}
	for len(ids) > 0 {
		some := ids[:min(len(ids), maxIDs)]
		ids = ids[len(some):]
		found, err := ask(ctx, q, "messages", "SELECT id, "+column+" AS body FROM messages WHERE id IN {ids:Array(String)} GROUP BY id", "ids", list(some))
		if err != nil {
			return err
		}
		for _, r := range found {
			each(r.text("id"), r.text("body"))
		}
	}
	return nil
}
