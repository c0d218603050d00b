package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const queryDoc = `Run a stored query on failures, versions, conversations, tools, providers, usage, cache or latency. Without a name, it lists them with their questions. Most have the parameters since, until, service, stage, environment, version, provider, model, status, user and attr (key=value), and all have limit. Rows are CSV.`

// maxCell is the maximum length of a value of a row, in characters.
const maxCell = 500

func (t *tools) query(ctx context.Context, in queryInput) (answer, error) {
	if in.Name == "" {
		var b strings.Builder
		if err := query.WriteNames(&b, terminal.DefaultWidth); err != nil {
			return answer{}, err
		}
		b.WriteString("\nRun one: query {\"name\":\"causes\",\"parameters\":{\"since\":\"15 minutes\"}}\n")
		return paged(b.String(), in.Offset)
	}
	values, err := valuesOf(in.Parameters)
	if err != nil {
		return answer{}, err
	}
	q, err := query.Named(in.Name, values)
	if err != nil {
		return answer{}, err
	}
	if err := access.ScopeOf(ctx).Refuses(q.Texts, values); err != nil {
		return answer{}, err
	}
	if q.Texts && !t.Content {
		return answer{}, fmt.Errorf("query %s returns texts of messages: %s", q.Name, withheld)
	}
	if q.Texts {
		access.Note(ctx, access.ReadTexts, "", fmt.Sprint("query ", q.Name, " ", values))
	}
	sql, params, err := q.Statement(t.Prices, time.Now().UTC())
	if err != nil {
		return answer{}, err
	}
	a := answer{}
	err = t.withStore(ctx, func(store rows.Querier, _ func() string) error {
		res, err := store.Query(ctx, sql, params)
		if err != nil {
			return err
		}
		res, sentence := q.Answer(res)
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n\n", q.Question)
		if sentence != "" {
			fmt.Fprintf(&b, "%s\n\n", line(sentence, maxCell))
		}
		if len(res.Rows) == 0 && sentence == "" {
			err := q.WriteNoRows(ctx, &b, store, params, style())
			a.text = b.String()
			return err
		}
		a, err = rowsAnswer(&b, res, in.Offset)
		return err
	})
	return a, err
}

// withheld says why texts are not returned.
const withheld = "they are withheld; whoever runs the server returns them with llmtap mcp --content, or at /mcp?content=true"

// valuesOf returns the parameters of a call.
func valuesOf(parameters map[string]any) (queries.Values, error) {
	values := queries.Values{}
	for name, v := range parameters {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, v := range list {
			switch v := v.(type) {
			case string:
				values[name] = append(values[name], v)
			case float64:
				values[name] = append(values[name], strconv.FormatFloat(v, 'f', -1, 64))
			case bool:
				values[name] = append(values[name], strconv.FormatBool(v))
			default:
				return nil, fmt.Errorf("parameters.%s: the value must be a string, a number or a list of them", line(name, maxVersion))
			}
		}
	}
	return values, nil
}

// A tableAnswer is rows as JSON.
type tableAnswer struct {
	Rows  []json.RawMessage `json:"rows"`
	First int               `json:"first_row"` // 0-based
	Total int               `json:"total_rows"`
}

// rowsAnswer appends the rows from offset that fit into an answer to b.
func rowsAnswer(b *strings.Builder, res *clickhouse.Result, offset int) (answer, error) {
	total := len(res.Rows)
	if offset < 0 || offset > total {
		return answer{}, fmt.Errorf("offset %d is not in the result, which has %s", offset, quantity.Plural(total, "row"))
	}
	data := tableAnswer{Rows: []json.RawMessage{}, First: offset, Total: total}
	some := &clickhouse.Result{Columns: res.Columns}
	size := 0
	for _, row := range res.Rows[offset:] {
		for i, v := range row {
			if s, ok := v.(string); ok {
				row[i] = terminal.Middle(s, maxCell)
			}
		}
		var object bytes.Buffer
		if err := table.Write(&object, &clickhouse.Result{Columns: res.Columns, Rows: [][]any{row}}, command.JSONL, nil); err != nil {
			return answer{}, err
		}
		if size += object.Len(); size > maxAnswer && len(data.Rows) > 0 {
			break
		}
		data.Rows, some.Rows = append(data.Rows, bytes.TrimSpace(object.Bytes())), append(some.Rows, row)
	}
	if err := table.Write(b, some, command.CSV, nil); err != nil {
		return answer{}, err
	}
	more := ""
	if res.Truncated {
		more = " or more"
	}
	next := offset + len(some.Rows)
	if next < total {
		fmt.Fprintf(b, "\n[rows %d to %d of %d%s; the rest: the same call with offset %d, or fewer with filters]", offset+1, next, total, more, next)
	}
	if size > 2*maxAnswer { // a single huge row
		return short(b.String(), nil)
	}
	return answer{b.String(), data}, nil
}

const sqlDoc = `Run one read-only SQL statement on ClickHouse, for a question that no stored query answers. Views: exchanges_final (one row per LLM call: started_at, service, service_version, stage, environment, provider, model, status, failed, cause, root_cause, error_text, duration, input_tokens, output_tokens, conversation_id, exchange_id …), findings_final (violations: rule_id, severity, root_cause, first_seen, message_index, summary, fix …), tool_calls_final, runs_final, alerts_final. DESCRIBE TABLE lists columns. Filter by started_at and add a LIMIT.`

type sqlInput struct {
	SQL    string `json:"sql" jsonschema:"a SELECT, SHOW, DESCRIBE or EXPLAIN statement without parameters"`
	Offset int    `json:"offset,omitempty" jsonschema:"number of rows to skip, to continue an answer; the statement needs an ORDER BY"`
}

func (t *tools) sql(ctx context.Context, in sqlInput) (answer, error) {
	if strings.TrimSpace(in.SQL) == "" {
		return answer{}, errors.New("sql is empty")
	}
	access.Note(ctx, access.RunSQL, "", in.SQL)
	if err := access.ScopeOf(ctx).OwnSQL(); err != nil {
		return answer{}, err
	}
	if !t.Content {
		if err := withoutTexts(in.SQL); err != nil {
			return answer{}, err
		}
	}
	var a answer
	err := t.withStore(ctx, func(q rows.Querier, _ func() string) error {
		res, err := q.Query(ctx, in.SQL, nil)
		if err != nil {
			return errors.New(strings.TrimPrefix(err.Error(), "run query: "))
		}
		var b strings.Builder
		if len(res.Rows) == 0 {
			a = answer{"(no rows)", tableAnswer{Rows: []json.RawMessage{}}}
			return nil
		}
		a, err = rowsAnswer(&b, res, in.Offset)
		return err
	})
	return a, err
}
