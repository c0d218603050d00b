package oidctest

import (
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A real browser logs in at the provider and out again: no policy of the pages stops it.
func TestBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.provider.set("anna", "on-call")
	p := browsertest.Start(t).Page(t, browsertest.View{Width: 1280, Height: 800})
	p.Open(w.url + "/alerts")
	p.Follow("a.button")
	p.Fill("input[name=username]", "anna")
	p.Fill("input[name=password]", password)
	p.Follow("button[type=submit]")
	must.Equal(t, p.Text(".person"), "Anna Example responder", "who")
	p.Follow("form[action='/logout'] button")
	must.Equal(t, p.Text("a.button"), "Log in", "after log-out")
	w.provider.set("eve", "other")
	p.Follow("a.button")
	p.Fill("input[name=username]", "eve")
	p.Fill("input[name=password]", password)
	p.Follow("button[type=submit]")
	must.Contain(t, p.Text(".problem"), "Eve Example is in none of the groups that may use llmtap: staff (viewer)")
}
