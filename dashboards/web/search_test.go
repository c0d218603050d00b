package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// hits returns the result of a statement of the search: rows of kind, id, exchange and conversation.
func hits(all ...[4]string) *Table {
	t := &Table{}
	for _, name := range []string{"kind", "id", "exchange", "conversation", "of_service", "of_stage", "about"} {
		t.Columns = append(t.Columns, Column{name, "String"})
	}
	t.Columns = append(t.Columns, Column{"calls", "UInt64"}, Column{"failed_calls", "UInt64"}, Column{"began", "DateTime64"}, Column{"ended", "DateTime64"})
	for _, h := range all {
		t.Rows = append(t.Rows, []any{h[0], h[1], h[2], h[3], hostile, hostile, hostile, uint64(3), uint64(1), testNow, testNow.Add(-time.Hour)})
	}
	return t
}

// Parts of the statements of a search.
const (
	byID       = "-- What has this id?"
	byProvider = "-- Which exchange has this id of the provider?"
	byPrefix   = "-- Which exchanges and conversations have"
	byText     = "-- Which messages contain a text"
	newest     = "-- When did the newest"
	bodies     = "-- Do the stored bodies"
)

func TestSearchRedirects(t *testing.T) {
	f := func(q, want string, rows map[string]*Table) {
		t.Helper()
		resp, _ := get(newTest(t, fakeSource{rows: rows}, ""), "/search?q="+url.QueryEscape(q))
		if got := resp.Header.Get("Location"); got != want || (resp.StatusCode == http.StatusSeeOther) != (want != "") {
			t.Errorf("%s: status %d, location %q, want %q", q, resp.StatusCode, got, want)
		}
	}
	f("e1", "/exchange/e1", map[string]*Table{byID: hits([4]string{"exchange", "e1", "e1", "c1"})})
	f("a/b", "/conversation/a%2Fb", map[string]*Table{byID: hits([4]string{"conversation", "a/b", "e1", "a/b"})})
	f("call_1", "/exchange/e2", map[string]*Table{byID: hits([4]string{"tool call", "call_1", "e2", "c1"})})
	f("run-1", "/conversation/c1", map[string]*Table{byID: hits([4]string{"run", "run-1", "e2", "c1"})})
	f("alert", "/incident/alert", map[string]*Table{byID: hits([4]string{"alert", "alert", "e2", ""})})
	f("req_1", "/exchange/e3", map[string]*Table{byProvider: hits([4]string{"provider request", "req_1", "e3", "c1"})})
	f("019aa0b0", "/exchange/019aa0b0-0000", map[string]*Table{byPrefix: hits([4]string{"exchange", "019aa0b0-0000", "019aa0b0-0000", "c1"})})
	// The id itself is preferred to others that begin so.
	f("conv-1234", "/conversation/conv-1234", map[string]*Table{
		byID:     hits([4]string{"conversation", "conv-1234", "e1", "conv-1234"}),
		byPrefix: hits([4]string{"conversation", "conv-1234", "e1", "conv-1234"}, [4]string{"conversation", "conv-12345", "e2", "conv-12345"}),
	})
	f("//evil.example", "/conversation/%2F%2Fevil.example", map[string]*Table{byID: hits([4]string{"conversation", "//evil.example", "e1", "//evil.example"})})
	// Not unique, too short, or without a page.
	f("call_1", "", map[string]*Table{byID: hits([4]string{"tool call", "call_1", "e2", "c1"}, [4]string{"tool call", "call_1", "e4", "c2"})})
	f("019aa0b", "", map[string]*Table{byPrefix: hits([4]string{"exchange", "019aa0b0-0000", "019aa0b0-0000", "c1"})})
	f("user", "", map[string]*Table{byID: hits([4]string{"user", "user", "e1", "c1"})})
	f("nothing", "", nil)
}

func TestSearch(t *testing.T) {
	excerpts := &Table{
		Columns: []Column{{"seen_at", "DateTime64"}, {"service", "String"}, {"conversation_id", "String"}, {"exchange_id", "String"}, {"role", "String"}, {"excerpt", "String"}},
		Rows:    [][]any{{testNow, hostile, hostile, hostile, hostile, "before <script>ALERT(1)</script> after"}},
	}
	_, body := get(newTest(t, fakeSource{rows: map[string]*Table{
		byID:   hits([4]string{"user", hostile, "e1", hostile}, [4]string{"tool call", hostile, hostile, ""}, [4]string{"user", hostile, "e1", ""}),
		byText: excerpts,
	}}, ""), "/search?q="+url.QueryEscape("alert(1)"))
	wantAll(t, body, "User, newest conversations", "1 tool call", "calls without a conversation", "<mark>ALERT(1)</mark>", "1 message of 1 conversation with", "from Nov 16 09:30:00 UTC to now")
	harmless(t, body)
	for excerpt, want := range map[string]string{
		`…r","content":"line\none word \"two\""}`: "line\none |word| \"two\"", `…start word and`: "…start |word| and…", `{"word":1}`: "|word|", `\"x\" word \u4e16`: "\"x\" |word| 世…",
	} {
		before, match, after := splitMatch(excerpt, "word")
		must.Equal(t, before+"|"+match+"|"+after, want, "%s", excerpt)
	}
	if strings.Contains(body, "data-live") {
		t.Error("the page of a search is refreshed")
	}

	f := func(q string, rows map[string]*Table, wants ...string) {
		t.Helper()
		_, body := get(newTest(t, fakeSource{rows: rows}, ""), "/search?range=24h&q="+url.QueryEscape(q))
		wantAll(t, body, wants...)
	}
	stored := &Table{Columns: []Column{{"newest", "DateTime64"}}, Rows: [][]any{{testNow}}}
	shapes := &Table{Columns: []Column{{"bodies", "UInt64"}, {"shapes", "UInt64"}}, Rows: [][]any{{uint64(7), uint64(7)}}}
	f("<img>", map[string]*Table{newest: stored, bodies: shapes}, "&lt;img&gt;", "enter at least 8 characters", "has this id since Nov 22 09:30:00 UTC", "Only the shapes")
	f("no such id", map[string]*Table{newest: stored}, "Nothing stored has the id", "as whole words")
	f("019aa0b0-0000", nil, "No id of a call or a conversation begins so", "No calls are stored")
	f("", nil, "everything that is stored")

	// What was found by its id is shown although the search by the beginning of an id failed.
	part := &searchHits{}
	ids, prefixes := &lookup{done: make(chan struct{}), hits: []hit{{Kind: "user", ID: "u"}}}, &lookup{done: make(chan struct{}), err: context.DeadlineExceeded}
	close(ids.done)
	close(prefixes.done)
	v, err := newView(httptest.NewRequest(http.MethodGet, "/search", nil), testNow)
	if err == nil {
		part, err = found(t.Context(), v, "u", []*lookup{ids, prefixes})
	}
	if err != nil || len(part.Kinds) != 1 || !strings.HasPrefix(part.Err, "Not everything was searched within 15 s") {
		t.Errorf("%+v, %v", part, err)
	}

	_, body = get(newTest(t, fakeSource{err: fmt.Errorf("dial: %w", ErrUnavailable)}, ""), "/search?q=x")
	must.Contain(t, body, "problem down", "the page does not say that ClickHouse is down")
}
