package web

import (
	"context"
	"net/http"
	"net/url"
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
}

func (s providersPage) list(ctx context.Context, v *View) ([]provider, error) {
	rows, err := s.query(ctx, "providers", v.values(), v.Now)
	if err != nil {
		return nil, err
	}
	out := make([]provider, len(rows))
	for i, r := range rows {
		out[i] = provider{
			Provider: r.text("provider"), Model: r.text("model"), Server: r.text("server"), Cause: r.text("main_cause"), Calls: r.int("calls"), Failed: r.int("failed_calls"),
			Median: r.float("p50_seconds"), Slow: r.float("p95_seconds"), Slowest: r.float("p99_seconds"), FirstByte: r.float("p50_first_byte"),
			Tokens: r.float("tokens_per_second"), Last: v.At(r.time("last_failure")), URL: v.With("/", "provider", r.text("provider"), "model", r.text("model")),
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
		key := r.text("target")
		if own {
			key += " own"
		}
		t := index[key]
		if t == nil {
			t = &target{Name: r.text("target"), Own: own}
			index[key] = t
			out = append(out, t)
		}
		x := latentRule{
			Rule: r.text("rule"), Provider: r.text("provider"), Model: r.text("model"), Service: r.text("service"), Stage: r.text("stage"), Fix: r.text("what_to_change"),
			Violations: r.int("violations"), Conversations: r.int("conversations"), Last: v.At(r.time("last_seen")),
		}
		x.Versions, _ = r["versions"].([]string)
		if id := r.text("example"); id != "" {
			x.Example = "/conversation/" + url.PathEscape(id)
		}
		t.Rules = append(t.Rules, x)
		t.Total += x.Violations
	}
	return out, nil
}
