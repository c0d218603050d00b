package main

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/browsertest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/pages"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// usualCalls are two days of two stages with more calls by day. For 40 minutes, calls of a model in a region take three times as long,
// read more and are cut off; the second stage has a third of its calls.
const usualCalls = `INSERT INTO exchanges (exchange_id, seq, service, service_version, environment, stage, conversation_id, user, attributes, started_at, stored_at,
	provider, model, status, failed, cause, input_tokens, output_tokens, cached_tokens, duration, first_byte, finish_reason, stream, messages)
WITH
	cityHash64(number) AS h,
	now64(3) - INTERVAL (86400 - number) * 2 SECOND AS at,
	number % 2 AS stage_number,
	at > now64(3) - INTERVAL 40 MINUTE AS late,
	h % 3 = 0 AS mini,
	intDiv(h, 64) % 2 = 0 AS eu,
	late AND mini AND eu AND stage_number = 0 AS hit,
	intDiv(h, 256) % 1000 < 8 AS broken,
	exp((intDiv(h, 1024) % 1000 + intDiv(h, 4096) % 1000 + intDiv(h, 65536) % 1000 - 1500) / 900) AS f
SELECT
	concat('x', toString(number)), number, 'checkout-agent', if(at > now64(3) - INTERVAL 1 HOUR, '2.4.0', '2.3.9'), 'prod', ['planner', 'triage'][stage_number + 1],
	concat('talk-', toString(intDiv(number, 8))), concat('user-', toString(h % 40)), map('region', if(eu, 'eu-west', 'us-east')), at, at,
	'openai', multiIf(mini, 'gpt-5-mini', h % 11 = 1, 'acme-large', 'gpt-5'), if(broken, 429, 200), broken, if(broken, 'rate_limit', ''),
	if(broken, NULL, toInt64(2400 * f * if(hit, 3, 1))), if(broken, NULL, toInt64(220 * f)), if(broken, NULL, 0),
	1.6 * f * if(hit, 3.5, 1), 0.5 * f * if(hit, 4, 1), multiIf(broken, '', hit OR h % 60 = 0, 'length', 'stop'), number % 4 < 2, 3 + h % 9
FROM numbers(86400)
WHERE intDiv(h, 16) % 100 < (62 + 34 * sin(toUnixTimestamp(at) * 2 * pi() / 86400)) * if(late AND stage_number = 1, 0.3, 1)`

// usualBands are what is usual of usualCalls.
func usualBands(_ context.Context, _, _, stage string, at []time.Time, names ...string) (map[string][]web.Band, error) {
	middle := map[string]float64{"calls": 15, "spend": 0.05}
	if stage != "" {
		middle = map[string]float64{"calls": 7.5, "spend": 0.025, "duration": 3.6, "first_token": 1.1, "input_tokens": 5400, "output_tokens": 495, "answer_limit": 0.017}
	}
	out := map[string][]web.Band{}
	for _, name := range names {
		for _, t := range at {
			m, season := middle[name], 1.0
			if name == "calls" || name == "spend" {
				season = 1.24 + 0.68*math.Sin(float64(t.Truncate(time.Hour).Unix()+1800)*2*math.Pi/86400)
			}
			if m > 0 {
				out[name] = append(out[name], web.Band{Low: 0.75 * m * season, High: 1.3 * m * season})
			}
		}
	}
	return out, nil
}

// unusualProblems are problems about measures of usualCalls.
type unusualProblems struct {
	web.Problems
	list []web.Problem
}

func newUnusualProblems(now time.Time) *unusualProblems {
	p := &unusualProblems{}
	add := func(rule, stage, cause, summary, fix string) {
		x := web.Problem{
			ID: cause, Service: "checkout-agent", Environment: "prod", Stage: stage, Subject: "checkout-agent/" + stage, State: "new", Severity: "warning", Cause: cause, Summary: summary, Fix: fix,
			FirstSeen: now.Add(-33 * time.Minute), LastSeen: now, Rules: []string{rule}, Incidents: 1, Firing: true, Alert: "a-" + cause,
		}
		x.Kind, x.Why, _ = wording.Problem(cause, false)
		x.Measure, x.Direction = wording.Measure(cause)
		x.Alerts = []web.Alert{{ID: x.Alert, Name: rule, Severity: "warning", Subject: x.Subject, Summary: summary, StartsAt: x.FirstSeen, UpdatedAt: now, Problem: x.ID}}
		p.list = append(p.list, x)
	}
	add("LatencyUnusual", "planner", "duration_high", "19% of calls take more than 4.7s; usually about 5% do", "If the first token is late, look at the provider's status and at the input tokens. If answers are longer, look at what changed in the prompt or the model, and limit the output tokens.")
	add("TokensUnusual", "planner", "input_tokens_high", "15% of calls read more than 7000 tokens; usually about 5% do", "Look at how long histories get and at the results of tools in them; shorten old ones, and compare the prompts of the versions.")
	add("TrafficUnusual", "triage", "calls_low", "3.1 calls a minute; usually 10", "Look at what calls the agent, and whether its processes run and still have the hook.")
	add("AnswersTruncated", "planner", "answer_limit", "9 answers were cut off at the token limit, in 96 calls", "Raise the token limit of the request, or ask for less per answer; look at how long histories are.")
	return p
}

func (p *unusualProblems) All(context.Context) ([]web.Problem, error) {
	return slices.Clone(p.list), nil
}

func (p *unusualProblems) Problem(_ context.Context, id string) (*web.Problem, error) {
	for _, x := range p.list {
		if x.ID == id {
			return &x, nil
		}
	}
	return nil, web.ErrNotFound
}

// The pages show what is measured beside what is usual, and the pages of problems about measures speak of nothing that failed.
func testUsual(t *testing.T, b *browsertest.Browser) {
	u := startUp(t)
	u.ready(t)
	sink := u.open(t)
	dsn, _ := u.rows().dsn()
	must.Do(t, executeOn(t, dsn, usualCalls))
	source := pages.Source(func() (*clickhouse.Sink, error) { return sink, nil })
	h := must.Get(web.NewHandler(web.Options{
		ClickHouse: source.Query, Problems: newUnusualProblems(time.Now()), Incidents: pages.Incidents{Access: func() alerts.Access { return alerts.Access{} }}, Usual: usualBands, Prices: price.Default(), Version: "dev",
		Firing: func(context.Context) ([]web.Alert, error) { return nil, nil },
	}))(t)
	srv := httptest.NewServer(h)
	defer srv.Close()
	defer srv.CloseClientConnections() // those of open pages, which are live
	p := b.Page(t, pageViews[0])
	for name, path := range map[string]string{
		"fleet": "/?range=24h", "stage": "/?range=6h&service=checkout-agent&stage=planner", "latency": "/problem/duration_high", "tokens": "/problem/input_tokens_high",
		"traffic": "/problem/calls_low", "answers": "/problem/answer_limit",
	} {
		p.Open(srv.URL + path)
		auditPage(t, p)
		text := p.Text("main")
		wants := []string{"The band is what is usual at that hour"}
		switch name {
		case "fleet":
			wants = append(wants, "For latency and tokens, it is only known per stage", "not in the cost")
		case "stage":
			wants = append(wants, "Latency", "Input tokens of a call", "Cost an hour")
		case "latency":
			wants = append(wants, "took more than 4.", "beyond chance", "version changed from 2.3.9 to 2.4.0")
		}
		for _, want := range wants {
			must.Contain(t, text, want, name)
		}
		for _, bad := range []string{"0 failed", "fail", "Root cause", "broken", "status 0", "cannot be shown"} {
			if name != "fleet" && name != "stage" && strings.Contains(text, bad) {
				t.Errorf("%s speaks of %q:\n%s", name, bad, text)
			}
		}
		if !filepath.IsAbs(*screenshots) { // the folder of the README has pictures of the demo only
			continue
		}
		for _, v := range pageViews {
			v.Height *= 4 // the whole page
			p.Show(v)
			p.Open(srv.URL + path)
			filetest.Write(t, filepath.Join(*screenshots, fmt.Sprintf("usual-%s-%d-%v.png", name, v.Width, v.Dark)), p.Screenshot())
		}
	}
}

// The statements know the same finish reasons as the analyzer.
func TestFinishReasons(t *testing.T) {
	for list, is := range map[string]func(string) bool{queries.AtTokenLimit: wire.AtTokenLimit, queries.Filtered: wire.Filtered} {
		for reason := range strings.SplitSeq(list, ", ") {
			if !is(strings.Trim(reason, "'")) {
				t.Errorf("%s is not known to package wire", reason)
			}
		}
	}
	source := filetest.Read(t, filepath.Join("..", "..", "ingest", "sdk", "go", "wire", "answer.go"))
	known := 0
	for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if wire.AtTokenLimit(m[1]) || wire.Filtered(m[1]) {
			known++
			must.Contain(t, queries.AtTokenLimit+queries.Filtered, "'"+m[1]+"'")
		}
	}
	must.Equal(t, known > 15, true, "finish reasons in the source")
}
