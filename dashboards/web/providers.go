package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// A providersPage shows providers and models.
type providersPage struct {
	*site
	store
}

// ServeHTTP serves the page of providers and models, and of the requests that others would reject.
func (s providersPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.page(r, "Providers", "/providers")
	s.serve(w, r, p,
		section{id: "providers", template: "providers", title: "Providers and models", load: func(ctx context.Context) (any, error) { return s.list(ctx, p.View) }},
		section{id: "latent", template: "providers-latent", title: "What would break elsewhere", load: func(ctx context.Context) (any, error) { return s.latent(ctx, p.View) }},
	)
}

// A provider is a row of the list of providers.
type provider struct {
	Provider, Model, Server, Cause           string
	Calls, Failed                            int64
	Median, Slow, Slowest, FirstByte, Tokens float64
	Last                                     Time
	URL                                      string
	Guessed                                  bool // whether Cause is a guess
}

func (s providersPage) list(ctx context.Context, v *View) ([]provider, error) {
	rows, err := s.query(ctx, "providers", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	out := make([]provider, len(rows))
	for i, r := range rows {
		cause, guessed := strings.CutPrefix(r.Text("main_cause"), "probably ")
		out[i] = provider{
			Provider: r.Text("provider"), Model: r.Text("model"), Server: r.Text("server"), Cause: cause, Guessed: guessed, Calls: r.Int64("calls"), Failed: r.Int64("failed_calls"),
			Median: r.Float("p50_seconds"), Slow: r.Float("p95_seconds"), Slowest: r.Float("p99_seconds"), FirstByte: r.Float("p50_first_byte"),
			Tokens: r.Float("tokens_per_second"), Last: v.At(r.Time("last_failure")), URL: v.With("/", "provider", r.Text("provider"), "model", r.Text("model")),
		}
	}
	return out, nil
}

// A target is a provider's dialect that would reject requests, with the rules that they break.
type target struct {
	Name  string
	Own   bool // the provider that accepts them, if it enforced its documentation
	Total int64
	Rules []latentRule
}

// A latentRule is a rule that accepted requests of a stage break.
type latentRule struct {
	Rule, Provider, Model, Service, Stage, Fix string
	Versions                                   []string
	Violations, Conversations                  int64
	Last                                       Time
	Example                                    string // URL
}

func (s providersPage) latent(ctx context.Context, v *View) ([]*target, error) {
	rows, err := s.query(ctx, "latent", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	var out []*target
	index := map[string]*target{}
	for _, r := range rows {
		own := r["own_target"] == true
		key := r.Text("target")
		if own {
			key += " own"
		}
		t := index[key]
		if t == nil {
			t = &target{Name: r.Text("target"), Own: own}
			index[key] = t
			out = append(out, t)
		}
		x := latentRule{
			Rule: r.Text("rule"), Provider: r.Text("provider"), Model: r.Text("model"), Service: r.Text("service"), Stage: r.Text("stage"), Fix: r.Text("what_to_change"),
			Violations: r.Int64("violations"), Conversations: r.Int64("conversations"), Last: v.At(r.Time("last_seen")),
		}
		x.Versions, _ = r["versions"].([]string)
		if id := r.Text("example"); id != "" {
			x.Example = "/conversation/" + url.PathEscape(id)
		}
		t.Rules = append(t.Rules, x)
		t.Total += x.Violations
	}
	return out, nil
}
