package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/sample"
)

// difficultText contains what a wrong encoding would change.
const difficultText = "quote ' \" \\ tab\t nul\x00 规划器 🛠️"

// batch returns n rows of every table.
func (v *verifier) batch(n int) *sinks.Batch {
	b := sample.Rows(v.start, 0, n)
	for i := range b.Contents {
		// Ids begin with the millisecond in which the conversation began, so the rows are on several shards.
		at := v.start.UnixMilli() + int64(i/12)
		b.Contents[i].ID = fmt.Sprintf("%012x%020x", at, i)
		b.History[i].Content = b.Contents[i].ID
	}
	b.Exchanges[0].ErrorText = difficultText
	return b
}

// write writes rows to every table, again, in a newer version, and in the old version once more, and reads them.
func (v *verifier) write(ctx context.Context) VerifyStep {
	b := v.batch(v.rows)
	for i, next := range []*sinks.Batch{b, b, sample.Later(v.batch(v.rows)), v.batch(v.rows)} {
		if err := v.sink.Write(ctx, next); err != nil {
			return v.fail(fmt.Sprintf("write, time %d", i+1), err)
		}
		if i > 0 {
			continue
		}
		e := b.Exchanges[0]
		got, err := v.sink.strings(ctx, "SELECT concat(error_text, '|', toString(toUnixTimestamp64Nano(started_at)), '|', attributes['tenant'], '|', toString(input_tokens)) FROM exchanges_final WHERE exchange_id = {id:String}",
			clickhouse.Named("id", e.ID))
		if err != nil {
			return v.fail("read a row", err)
		}
		if want := fmt.Sprintf("%s|%d|%s|%d", e.ErrorText, e.StartedAt.UnixNano(), e.Attrs["tenant"], e.InputTokens); strings.Join(got, "\n") != want {
			return failf("report it with the version of ClickHouse", "a row was read as %q, not %q", got, want)
		}
	}
	difference := ""
	_, done, err := v.until(ctx, func() (bool, error) {
		counts, err := v.sink.Counts(ctx)
		if err != nil {
			return false, err
		}
		for _, t := range tables {
			if n := counts[t.Name()]; n != uint64(v.rows) {
				difference = fmt.Sprintf("%s has %d rows instead of %d", t.Name(), n, v.rows)
				return false, nil
			}
		}
		newest, err := v.sink.number(ctx, "SELECT countIf(stage = 'executor' AND error_text = '' AND status = 200) FROM exchanges_final")
		difference = fmt.Sprintf("%d of %d rows have their newest version", newest, v.rows)
		return newest == uint64(v.rows), err
	})
	switch {
	case err != nil:
		return v.fail("count the rows", err)
	case !done:
		return failf("see the log of the server, and report it with the version of ClickHouse", "%s, after %v", difference, replicationWait)
	}
	return okf("4 writes of %d rows, 2 versions, to each of %d tables: each row once, in its newest version", v.rows, len(tables))
}

// queries runs the stored queries.
func (v *verifier) queries(ctx context.Context) VerifyStep {
	slowest, name := time.Duration(0), ""
	for _, q := range v.cfg.Queries {
		begin := time.Now()
		if _, err := v.sink.Query(ctx, q.SQL, q.Params); err != nil {
			return v.fail("query "+q.Name, err)
		}
		if took := time.Since(begin); took > slowest {
			slowest, name = took, q.Name
		}
	}
	return okf("%d queries; the slowest, %s, took %.2f s", len(v.cfg.Queries), name, slowest.Seconds())
}

// erase deletes a conversation, as llmtap forget does.
func (v *verifier) erase(ctx context.Context) VerifyStep {
	subject := ErasureSubject{Conversation: v.batch(1).Exchanges[0].Conversation}
	e, err := v.sink.PlanErasure(ctx, subject)
	if err != nil {
		return v.fail("find the rows of a conversation", err)
	}
	if err := v.sink.Erase(ctx, e, time.Now().Add(time.Hour), func(int, int) {}); err != nil {
		return v.fail("erase a conversation", err)
	}
	left, err := v.sink.PlanErasure(ctx, subject)
	if err != nil {
		return v.fail("find the rows of a conversation", err)
	}
	if len(e.Exchanges) == 0 || len(left.Exchanges) > 0 {
		return failf("see system.mutations", "%d of %d calls of a conversation are left", len(left.Exchanges), len(e.Exchanges))
	}
	return okf("a conversation with %d calls was deleted from all tables", len(e.Exchanges))
}
