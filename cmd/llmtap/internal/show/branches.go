package show

import (
	"context"
	"fmt"
	"math"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
)

const (
	maxDepth   = 1000    // maximum branches followed to find a message
	maxIDs     = 500     // maximum contents read by one query
	maxRequest = 1 << 28 // maximum bytes of a reassembled request
)

// A branch is a stored history: its own messages, and the number of messages it shares with its parent.
type branch struct {
	parent string
	shared int
	ids    map[int]string // ids of contents, by position
}

type branches map[string]*branch

var (
	branchesOf = rows.Statement(`SELECT branch, position, message_id, parent, shared FROM history FINAL
		WHERE conversation_id = {id:String} AND position < {n:UInt32}`)
	contentsOf = rows.Statement("SELECT id, any(substring(body, 1, {n:UInt32})) AS body FROM messages WHERE id IN {ids:Array(String)} GROUP BY id")
)

// readBranches reads the first n positions of each branch of a conversation.
func readBranches(ctx context.Context, q rows.Querier, conversation string, n int) (branches, error) {
	found, err := rows.Read(ctx, q, "history", branchesOf, map[string]string{"id": conversation, "n": fmt.Sprint(n)})
	if err != nil {
		return nil, err
	}
	all := branches{}
	for _, r := range found {
		b := all[r.Text("branch")]
		if b == nil {
			b = &branch{ids: map[int]string{}}
			all[r.Text("branch")] = b
		}
		// All rows of a branch have the same parent, or no parent if the process that wrote them knew the branch only from
		// a replay.
		if p := r.Text("parent"); p != "" {
			b.parent, b.shared = p, r.Int("shared")
		}
		b.ids[r.Int("position")] = r.Text("message_id")
	}
	return all, nil
}

// find returns the id of the content at a position of a branch. The content may belong to an ancestor.
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

// readContents calls each for every id with its stored body, cut to n bytes; 0 means whole bodies.
func readContents(ctx context.Context, q rows.Querier, ids []string, n int, each func(id, body string)) error {
	if n == 0 {
		n = math.MaxInt32
	}
	for len(ids) > 0 {
		some := ids[:min(len(ids), maxIDs)]
		ids = ids[len(some):]
		found, err := rows.Read(ctx, q, "messages", contentsOf, map[string]string{"ids": rows.TextsParam(some), "n": fmt.Sprint(n)})
		if err != nil {
			return err
		}
		for _, r := range found {
			each(r.Text("id"), r.Text("body"))
		}
	}
	return nil
}
