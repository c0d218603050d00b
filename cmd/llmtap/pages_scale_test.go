package main

import (
	"cmp"
	"flag"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse/scaletest"
)

var (
	pagesDay  = flag.String("day", "24h", "time range of lists in TestPagesScale")
	pagesRows = flag.Int("rows", 0, "exchanges for TestPagesScale, such as 10000000; 0 skips it")
	pagesNew  = flag.Int("newest", 0, "generate only this many of the -rows exchanges, the newest; 0: all")
)

const (
	pageRuns   = 20                     // measured requests per page
	pageTarget = 300 * time.Millisecond // of the 95th percentile
)

// TestPagesScale measures how long the collector takes for each web page in its default range, with many stored exchanges. A page
// that takes longer than pageTarget must have begun by then.
//
//	go test ./cmd/llmtap -run TestPagesScale -rows 10000000 -v -timeout 60m
func TestPagesScale(t *testing.T) {
	if *pagesRows <= 0 {
		t.Skip("NOT TESTED: use -rows 10000000")
	}
	needClickHouse(t)
	u := startUp(t)
	u.ready(t)
	sink := u.open(t)
	dsn, _ := u.rows().dsn()
	must.Do(t, scaletest.FillNewest(cmp.Or(*pagesNew, *pagesRows), *pagesRows, time.Now(), func(sql string) error { return executeOn(t, dsn, sql) }, t.Logf))
	for quiet := 0; quiet < 3; time.Sleep(2 * time.Second) { // background merges
		res := must.Get(sink.Query(t.Context(), "SELECT count() FROM system.merges", nil))(t)
		if quiet++; fmt.Sprint(res.Rows[0][0]) != "0" {
			quiet = 0
		}
	}
	base := u.inBanner(t, `Pages\s+(http://[^/]+)/`)
	res, err := sink.Query(t.Context(), `SELECT conversation_id, exchange_id, provider_request_id, user FROM exchanges WHERE conversation_id IN (SELECT conversation_id FROM history)
		ORDER BY started_at DESC LIMIT 1 OFFSET 1000`, nil)
	if err != nil || len(res.Rows) != 1 {
		t.Fatal(res, err)
	}
	var out strings.Builder
	tw := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "page\tp50 ms\tp95 ms\tfirst bytes p95 ms\tkB\t")
	for _, path := range scalePages(t, base, res.Rows[0]) {
		m := measurePage(t, base+path)
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t\n", path, m.total[pageRuns/2].Milliseconds(), m.total[pageRuns*95/100].Milliseconds(), m.first[pageRuns*95/100].Milliseconds(), m.bytes>>10)
		if m.first[pageRuns*95/100] > pageTarget {
			t.Errorf("%s: nothing is sent for %v", path, m.first[pageRuns*95/100])
		}
	}
	_ = tw.Flush() // to memory
	t.Logf("%d exchanges, %d requests per page, one at a time:\n%s", *pagesRows, pageRuns, out.String())
}

// executeOn runs a statement on the embedded ClickHouse.
func executeOn(t *testing.T, dsn, sql string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		return err
	}
	u.RawQuery, u.Path = url.Values{"database": {strings.Trim(u.Path, "/")}}.Encode(), "/"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String(), strings.NewReader(sql))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.300s %w", resp.Status, body, cmp.Or(err, io.EOF))
	}
	return nil
}

// scalePages returns the paths of the pages: those of the navigation, the first incident and problem that they link to, a conversation, and
// searches. ids are those of an exchange.
func scalePages(t *testing.T, base string, ids []any) []string {
	t.Helper()
	_, body := fetchPage(t, base+"/")
	nav, _, _ := strings.Cut(body, "</nav>")
	var paths []string
	for _, m := range regexp.MustCompile(`<a href="(/[^"]*)"`).FindAllStringSubmatch(nav[strings.Index(nav, "<nav"):], -1) {
		paths = append(paths, html.UnescapeString(m[1]))
	}
	for _, kind := range []string{"incident", "problem"} {
		for _, path := range slices.Clone(paths) {
			_, body := fetchPage(t, base+path)
			if m := regexp.MustCompile(`href="(/` + kind + `/[^"]+)"`).FindStringSubmatch(body); m != nil {
				paths = append(paths, html.UnescapeString(m[1]))
				break
			}
		}
	}
	paths = append(paths, "/conversation/"+url.PathEscape(fmt.Sprint(ids[0])))
	for _, id := range ids {
		paths = append(paths, "/search?"+url.Values{"q": {fmt.Sprint(id)}}.Encode())
	}
	paths = append(paths, "/search?q=needle")
	// Lists of the last day, or as many calls of it as there are with 10 million in a month.
	for _, path := range []string{"calls?", "calls?sort=cost&", "calls?cause=rate_limit&sort=seconds&", "calls?user=" + url.QueryEscape(fmt.Sprint(ids[3])) + "&", "conversations?", "users?sort=cost&"} {
		paths = append(paths, "/traffic/"+path+"from="+url.QueryEscape(*pagesDay))
	}
	paths = append(paths, "/suggest/service?from="+url.QueryEscape(*pagesDay), "/timeline?from="+url.QueryEscape(*pagesDay)+"&conversation="+url.QueryEscape(fmt.Sprint(ids[0])))
	return slices.DeleteFunc(paths, func(path string) bool {
		status, _ := fetchPage(t, base+path)
		if status != http.StatusOK {
			t.Logf("%s: status %d", path, status)
		}
		return status == http.StatusNotFound
	})
}

func fetchPage(t *testing.T, u string) (status int, body string) {
	t.Helper()
	resp := must.Get(http.Get(u))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(b)
}

// A pageCost is the cost of a page: sorted times until the first bytes and until the last.
type pageCost struct {
	first, total []time.Duration
	bytes        int
}

func measurePage(t *testing.T, u string) (c pageCost) {
	t.Helper()
	fetchPage(t, u) // warm-up
	for range pageRuns {
		begin := time.Now()
		resp := must.Get(http.Get(u))(t)
		first := make([]byte, 1)
		_, err := io.ReadFull(resp.Body, first)
		c.first = append(c.first, time.Since(begin))
		rest, restErr := io.ReadAll(resp.Body)
		c.total = append(c.total, time.Since(begin))
		resp.Body.Close()
		if err != nil || restErr != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v %v", u, resp.Status, err, restErr)
		}
		if c.bytes = len(rest) + 1; strings.Contains(string(rest), `class="problem`) {
			_, problem, _ := strings.Cut(string(rest), `class="problem`)
			t.Logf("%s: %.200s", u, problem)
		}
	}
	slices.Sort(c.first)
	slices.Sort(c.total)
	return c
}
