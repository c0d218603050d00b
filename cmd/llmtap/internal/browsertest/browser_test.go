package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A page with problems shows that the checks see them.
func TestProblems(t *testing.T) {
	b := Start(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/clean":
			fmt.Fprint(w, `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Clean</title><main><h1>Clean</h1><form><label>Name <input name="q"></label></form></main>`)
		case "/bad":
			fmt.Fprint(w, `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Bad</title><main><h1>Bad</h1><img src="http://example.com/a.png"><p style="width: 900px; color: #bbb; background: #fff">pale and wide</p>
				<script>console.log("hello"); throw new Error("thrown")</script></main>`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer srv.Close()
	p := b.Page(t, View{390, 800, false})
	p.Open(srv.URL + "/clean")
	p.Fill("input", "a b")
	p.Submit()
	var query string
	p.Eval("Promise.resolve(location.search)", &query)
	if query != "?q=a+b" || len(p.Overflow()) > 0 || len(p.Audit()) > 0 {
		t.Errorf("query %q, overflow %v, violations %v", query, p.Overflow(), p.Audit())
	}
	if got := slices.DeleteFunc(p.Problems(), func(s string) bool { return strings.Contains(s, "favicon") }); len(got) > 0 {
		t.Errorf("problems of a clean page: %v", got)
	}
	p.Open(srv.URL + "/bad")
	problems := strings.Join(p.Problems(), "\n")
	for _, want := range []string{"leaves loopback: http://example.com/a.png", "console: log", "thrown"} {
		must.Contain(t, problems, want)
	}
	if len(p.Overflow()) == 0 {
		t.Error("a wide page does not overflow")
	}
	var ids []string
	for _, v := range p.Audit() {
		ids = append(ids, v.ID)
	}
	if !slices.Contains(ids, "image-alt") || !slices.Contains(ids, "color-contrast") {
		t.Errorf("violations: %v", ids)
	}
}
