package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Which side has an index of the words of bodies, in which a search for a word looks.
const (
	wordsOwn  = "own"  // llmtap
	wordsBoth = "both" // and the collector's table
	wordsNone = "none"
)

const (
	ownBody   = "body"
	theirBody = "concat(SpanAttributes['gen_ai.input.messages'], SpanAttributes['gen_ai.output.messages'])"
	rareWord  = "zoneinfo" // in the texts of single calls
)

// search returns a query that counts the rows of a table whose text has a word, as messages_with looks for it.
func search(table, text string) string {
	const format = "SELECT toInt64(count()) FROM %s WHERE hasToken(lower(%[2]s), '%[3]s') OR hasToken(lower(%[2]s), 'n%[3]s') OR hasToken(lower(%[2]s), 't%[3]s') SETTINGS use_query_condition_cache = 0"
	return fmt.Sprintf(format, table, text, rareWord)
}

// index changes the tables of a side, whose DSN is given, so that they have an index of words or none.
func index(ctx context.Context, dsn, words string, own bool) error {
	switch {
	case own && words == wordsNone:
		return execute(ctx, dsn, "ALTER TABLE messages DROP INDEX word_index")
	case !own && words == wordsBoth:
		// Granules of this table have up to 10 MB of texts, those of llmtap's 1 MB and two in each part of the index.
		return execute(ctx, dsn, "ALTER TABLE otel_traces ADD INDEX word_index lower("+theirBody+") TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 1")
	}
	return nil
}

// execute runs a statement over HTTP.
func execute(ctx context.Context, dsn, sql string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	u.Scheme, u.RawQuery, u.Path = "http", "database="+strings.TrimPrefix(u.Path, "/"), "/"
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(sql))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", sql, res.Status, text)
	}
	return err
}
