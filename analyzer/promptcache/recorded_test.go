package promptcache_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// shortReads lists the answers, by line, in which Gemini read less than the shortest prefix that its documentation names. It
// counts the same share of the text and of the images of a prompt as read, as if it estimated.
var shortReads = map[int]bool{643: true, 650: true, 1074: true, 1075: true, 2361: true, 2600: true}

// TestRecordedUsage compares what recorded answers say of the cache with what the policy of the provider allows, and prints the
// share that agrees. The recordings have no times, so what a call could have read is not known, only what it cannot have read.
func TestRecordedUsage(t *testing.T) {
	type row struct{ answers, reported, marked, read, agree int }
	table := map[string]*row{}
	var exceptions []string
	recordedtest.Lines(t, recordedtest.Exchanges, func(n int, line []byte) {
		var r struct {
			URL      string
			Status   int
			Request  json.RawMessage
			Response json.RawMessage
			Encoding string `json:"response_encoding"`
		}
		must.Do(t, json.Unmarshal(line, &r))
		var text string
		answer := []byte(r.Response)
		if json.Unmarshal(r.Response, &text) == nil {
			answer = []byte(text)
		}
		if r.Encoding == "base64" {
			answer = must.Get(base64.StdEncoding.DecodeString(text))(t)
		}
		target := facts.Detect(r.URL, "", r.Request)
		var q facts.Request
		var a facts.Response
		if r.Status/100 != 2 || facts.ScanRequest(target.Dialect, r.Request, &q) != nil || facts.ScanResponse(target.Dialect, "", answer, &a) != nil || a.InputTokens == 0 {
			return
		}
		p := promptcache.Of(target, q.Cache().Marked())
		name := p.Provider
		if !p.Known() {
			name = target.Provider() + " (unknown)"
		}
		x := table[name]
		if x == nil {
			x = new(row)
			table[name] = x
		}
		x.answers++
		if !a.CacheReported {
			return
		}
		x.reported++
		if a.CachedTokens > 0 {
			x.read++
		}
		if q.Cache().Marked() {
			x.marked++
		}
		why := disagrees(p, &q, &a)
		if why != "" {
			exceptions = append(exceptions, fmt.Sprintf("%d: %s %s: %s", n, name, target.Model, why))
		} else {
			x.agree++
		}
		must.Equal(t, why != "", shortReads[n], "%d: %s %s: new is %q", n, name, target.Model, why)
	})
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "provider\tanswers\treport the cache\tmarked\tread\tagree")
	for _, name := range slices.Sorted(maps.Keys(table)) {
		x := table[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.1f %%\n", name, x.answers, x.reported, x.marked, x.read, 100*float64(x.agree)/float64(max(x.reported, 1)))
	}
	must.Do(t, w.Flush())
	t.Logf("\n%s%d exceptions\n%s", out.String(), len(exceptions), strings.Join(exceptions, "\n"))
}

// disagrees returns what in the usage of a contradicts the policy p, or "".
func disagrees(p *promptcache.Policy, q *facts.Request, a *facts.Response) string {
	read, written := a.CachedTokens, a.CacheWritten
	switch {
	case read+written > a.InputTokens:
		return fmt.Sprintf("%d read and %d written of %d", read, written, a.InputTokens)
	case a.CacheHour > written:
		return fmt.Sprintf("%d written for an hour of %d", a.CacheHour, written)
	case !p.Known():
		return ""
	case read > 0 && read < p.Minimum, written > 0 && read+written < p.Minimum:
		return fmt.Sprintf("%d read and %d written of %d, with a minimum of %d", read, written, a.InputTokens, p.Minimum)
	case p.Reported > 1 && read%p.Reported != 0:
		return fmt.Sprintf("%d read of %d, no multiple of %d", read, a.InputTokens, p.Reported)
	case p.Ends == promptcache.EndMarks && !q.Cache().Marked() && read+written > 0:
		return fmt.Sprintf("%d read and %d written without a mark", read, written)
	case p.Ends == promptcache.EndMarks && q.Cache().Marked() && read+written == 0 && a.InputTokens >= p.Minimum:
		return fmt.Sprintf("nothing read or written of %d with a mark", a.InputTokens)
	}
	return ""
}
