package explain

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// textOf explains a text as users give it.
func textOf(t testing.TB, text string) Result {
	t.Helper()
	k := &keep{}
	if err := New(k).Text("", []byte(text)); err != nil || len(k.results) != 1 {
		t.Fatalf("%.100s: %v, %d results", text, err, len(k.results))
	}
	return k.results[0]
}

// isProtocol reports whether a class of causes is a fault of the request.
func isProtocol(class string) bool {
	switch class {
	case "", "access", "policy", "provider", "size", "unexplained":
		return false
	}
	return true
}

// Recorded requests and answers that did not fail state no error, in any form.
func TestHealthyTexts(t *testing.T) {
	slowtest.SkipShort(t, "slow")
	every := 40 / slowtest.Tenth(t, 20) // with the flag -slow, every second one
	type count struct{ all, fine, unexplained, wrong int }
	counts := map[string]*count{}
	total := &count{}
	check := func(kind, form, text string) {
		c := counts[kind+" as "+form]
		if c == nil {
			c = &count{}
			counts[kind+" as "+form] = c
		}
		r := textOf(t, text)
		for _, c := range []*count{c, total} {
			c.all++
			c.fine += one(r.Cause == "")
			c.unexplained += one(r.Cause == "unexplained")
			c.wrong += one(r.Cause != "" && r.Cause != "unexplained")
		}
		if r.Cause != "" && r.Cause != "unexplained" {
			t.Errorf("%s as %s: %s by %s: %.300s", kind, form, r.Cause, r.StatedBy, text)
		}
	}
	recordedtest.Lines(t, recordedtest.Exchanges, func(n int, line []byte) {
		var x struct {
			Status            int
			Request, Response json.RawMessage
		}
		must.Do(t, json.Unmarshal(line, &x))
		if x.Status != 200 || n%every != 0 {
			return
		}
		bodies := map[string]json.RawMessage{"request": x.Request}
		var failed struct{ Error any }
		var stream string
		switch {
		case json.Unmarshal(x.Response, &stream) == nil:
			check("answer", "stream", stream)
		case json.Unmarshal(x.Response, &failed) != nil || failed.Error == nil: // a few answers with status 200 are errors
			bodies["answer"] = x.Response
		}
		for kind, body := range bodies {
			if len(body) <= len("{}") {
				continue
			}
			v := decode(t, body)
			for i := range 2 {
				form := formNames[(n/every+i*5)%len(formNames)]
				check(kind, form, forms[form](v))
			}
		}
	})
	t.Logf("%-32s  all  no error  unexplained  with a cause", "text")
	for _, name := range append(slices.Sorted(maps.Keys(counts)), "all") {
		c := counts[name]
		if c == nil {
			c = total
		}
		t.Logf("%-32s %4d  %8d  %11d  %12d", name, c.all, c.fine, c.unexplained, c.wrong)
	}
	if total.fine*100 < total.all*99 {
		t.Errorf("only %d of %d texts state no error", total.fine, total.all)
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
