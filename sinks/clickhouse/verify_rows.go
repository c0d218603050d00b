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

// batch returns n rows of every table, numbered from first.
func (v *verifier) batch(first, n int) *sinks.Batch {
	b := sample.Rows(v.start, first, n)
	for i := range b.Contents {
		// Ids begin with the millisecond in which the conversation began, so the rows are on several shards.
		at := v.start.UnixMilli() + int64((first+i)/12)
		b.Contents[i].ID = fmt.Sprintf("%012x%020x", at, first+i)
		b.History[i].Content = b.Contents[i].ID
	}
	b.Exchanges[0].ErrorText = difficultText
	return b
}

// count waits until each table has written rows, without older versions. It returns "" and the time that it took, or the
// difference.
func (v *verifier) count(ctx context.Context, s *Sink) (took time.Duration, difference string, err error) {
	took, _, err = v.until(ctx, func() (bool, error) {
		counts, err := s.Counts(ctx)
		if err != nil {
			return false, err
		}
		difference = ""
		for _, t := range tables {
			if n := counts[t.Name()]; n != uint64(v.written) {
				difference = fmt.Sprintf("%s has %d rows instead of %d", t.Name(), n, v.written)
				return false, nil
			}
		}
		return true, nil
	})
	return took, difference, err
}

// counted returns the outcome of a step that has written v.written rows to each table.
func (v *verifier) counted(ctx context.Context, s *Sink, format string, args ...any) outcome {
	took, difference, err := v.count(ctx, s)
	switch {
	case err != nil:
		return v.fail("count the rows", err)
	case difference != "":
		return failf("see the log of the server", "%s, after %v", difference, took.Round(time.Second))
	}
	text := fmt.Sprintf(format, args...)
	if took > time.Second {
		text += fmt.Sprintf("; visible after %.1f s", took.Seconds())
	}
	return okf("%s", text)
}

// write writes rows to every table and reads them.
func (v *verifier) write(ctx context.Context) outcome {
	b := v.batch(0, v.rows)
	begin := time.Now()
	if err := v.sink.Write(ctx, b); err != nil {
		return v.fail("write", err)
	}
	took := time.Since(begin)
	v.written += v.rows
	out := v.counted(ctx, v.sink, "%d rows in each of %d tables, in %.1f s", v.rows, len(tables), took.Seconds())
	if out.status != VerifyOK {
		return out
	}
	e := b.Exchanges[0]
	got, err := v.sink.strings(ctx, "SELECT concat(error_text, '|', toString(toUnixTimestamp64Nano(started_at)), '|', attributes['tenant'], '|', toString(input_tokens)) FROM exchanges_final WHERE exchange_id = {id:String}",
		clickhouse.Named("id", e.ID))
	if err != nil {
		return v.fail("read a row", err)
	}
	want := fmt.Sprintf("%s|%d|%s|%d", e.ErrorText, e.StartedAt.UnixNano(), e.Attrs["tenant"], e.InputTokens)
	if strings.Join(got, "\n") != want {
		return failf("report it with the version of ClickHouse", "a row was read as %q, not %q", got, want)
	}
	return out
}

// repeat writes the rows of write again, a newer version of them, and the old version once more.
func (v *verifier) repeat(ctx context.Context) outcome {
	for i, b := range []*sinks.Batch{v.batch(0, v.rows), sample.Later(v.batch(0, v.rows)), v.batch(0, v.rows)} {
		if err := v.sink.Write(ctx, b); err != nil {
			return v.fail(fmt.Sprintf("write the batch again, time %d", i+2), err)
		}
	}
	var newest uint64
	_, done, err := v.until(ctx, func() (done bool, err error) {
		newest, err = v.sink.number(ctx, "SELECT countIf(stage = 'executor' AND error_text = '' AND status = 200) FROM exchanges_final WHERE instance_seq < {end:UInt64}",
			clickhouse.Named("end", fmt.Sprint(v.rows)))
		return newest == uint64(v.rows), err
	})
	switch {
	case err != nil:
		return v.fail("read the newest versions", err)
	case !done:
		return failf("report it with the version of ClickHouse", "%d of %d rows have their newest version", newest, v.rows)
	}
	return v.counted(ctx, v.sink, "4 writes of the same rows, 2 versions: each row once, in its newest version")
}

// optimize merges the parts of all tables on all servers.
func (v *verifier) optimize(ctx context.Context) error {
	for _, t := range tables {
		if err := v.sink.conn.Exec(ctx, "OPTIMIZE TABLE "+v.topology().alterTarget(t.Name())+" FINAL"); err != nil {
			return fmt.Errorf("optimize %s: %w", t.Name(), err)
		}
	}
	return nil
}

// queries runs the stored queries.
func (v *verifier) queries(ctx context.Context) outcome {
	if len(v.cfg.Queries) == 0 {
		return skipf("there are none")
	}
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

// textIndex checks that the search for words in messages uses the index.
func (v *verifier) textIndex(ctx context.Context) outcome {
	plan, err := v.sink.strings(ctx, "EXPLAIN indexes = 1 SELECT id FROM "+v.topology().local("messages")+
		` WHERE hasToken(replaceAll(replaceAll(lower(body), '\\n', ' '), '\\t', ' '), '00000007')`)
	switch {
	case err != nil:
		return v.fail("explain a search", err)
	case !strings.Contains(strings.Join(plan, "\n"), "body_index"):
		return failf("set use_skip_indexes = 1 in the profile of "+v.userName(), "a search for a word in messages does not use body_index and would read all messages")
	}
	return okf("a search for a word in messages uses it")
}

// ttl sets a retention and writes rows that are older.
func (v *verifier) ttl(ctx context.Context) outcome {
	s := v.sink
	s.cfg.Retention = 24 * time.Hour
	if err := s.applyRetention(ctx); err != nil {
		return v.fail("set a retention of 24 h", err)
	}
	const rows = 24
	if err := s.Write(ctx, sample.Rows(v.start.AddDate(0, 0, -10), 900_000, rows)); err != nil {
		return v.fail("write old rows", err)
	}
	if err := v.optimize(ctx); err != nil {
		return v.fail("merge", err)
	}
	_, difference, err := v.count(ctx, s)
	switch {
	case err != nil:
		return v.fail("count the rows", err)
	case difference != "":
		return failf("see system.merges and system.replication_queue; SYSTEM START TTL MERGES if they were stopped", "%s with a TTL of 24 h, after %v", difference, v.cfg.Wait)
	}
	return okf("rows older than a retention of 24 h were deleted, newer ones were kept")
}

// erase deletes a conversation, as llmtap forget does.
func (v *verifier) erase(ctx context.Context) outcome {
	subject := ErasureSubject{Conversation: v.batch(0, 1).Exchanges[0].Conversation}
	e, err := v.sink.PlanErasure(ctx, subject)
	if err != nil {
		return v.fail("find the rows of a conversation", err)
	}
	if err := v.sink.Erase(ctx, e, time.Now().Add(time.Hour)); err != nil {
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
