package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	sdk "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A cachingAgent is a planner with a long system prompt, whose conversations have four turns.
type cachingAgent struct {
	t      *testing.T
	url    string // of the provider
	hook   *sdk.Hook
	system func() string

	mu   sync.Mutex // guards lost
	lost int        // tokens of the turn before that were not read from the cache
}

func newCachingAgent(t *testing.T, url, nats, version string, system func() string) *cachingAgent {
	hook := must.Get(sdk.Open(sdk.Config{
		URL: nats, Service: "checkout-agent", ServiceVersion: version, Environment: "prod", Agent: "planner", Capture: event.CaptureFull,
		Hosts: []string{strings.TrimPrefix(url, "http://")},
	}))(t)
	return &cachingAgent{t: t, url: url + provider.DeepSeekPath + "/chat/completions", hook: hook, system: system}
}

// run makes conversations until ctx ends, four at a time.
func (a *cachingAgent) run(ctx context.Context) {
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				a.talk(ctx, fmt.Sprintf("order-%d-%d", worker, i))
			}
		})
	}
	all.Wait()
	_ = a.hook.Close()
}

func (a *cachingAgent) talk(ctx context.Context, id string) {
	client := &http.Client{Transport: a.hook.Transport(nil)}
	var history []map[string]any
	before := 0
	for turn := range 4 {
		history = append(history, map[string]any{"role": "user", "content": fmt.Sprintf("What is next for %s, step %d?", id, turn)})
		messages := append([]map[string]any{{"role": "system", "content": a.system()}}, history...)
		body := must.Get(json.Marshal(map[string]any{"model": "deepseek-chat", "messages": messages}))(a.t)
		call := sdk.WithStage(sdk.WithConversation(context.WithoutCancel(ctx), id), "planner")
		req := must.Get(http.NewRequestWithContext(call, http.MethodPost, a.url, bytes.NewReader(body)))(a.t)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			a.t.Error(err)
			return
		}
		var answer struct {
			Choices []struct{ Message map[string]any }
			Usage   struct {
				Prompt int `json:"prompt_tokens"`
				Hit    int `json:"prompt_cache_hit_tokens"`
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		_ = resp.Body.Close()
		if err != nil || len(answer.Choices) != 1 {
			a.t.Errorf("answer %d: %v", resp.StatusCode, err)
			return
		}
		a.mu.Lock()
		if lost := before - answer.Usage.Hit; lost >= 64 { // DeepSeek counts in units of 64
			a.lost += lost
		}
		a.mu.Unlock()
		before, history = answer.Usage.Prompt, append(history, answer.Choices[0].Message)
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Version 2.5.0 puts the time into the system prompt. Slack says so within a minute, with whose change it is and what it costs a day, in an
// installation that has seen the version before for a quarter of a minute.
func TestCacheIncident(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	model := httptest.NewServer(provider.New(provider.Config{Seed: 1, MaxLatency: 20 * time.Millisecond, Cache: promptcaching.New(promptcaching.Options{})}))
	t.Cleanup(model.Close)
	workspace := slack.New(slack.Config{Channels: []string{"oncall"}})
	slackServer := httptest.NewServer(workspace)
	t.Cleanup(slackServer.Close)
	col := runCollector(t, collectortest.Config(t, func(cfg *config.Config) {
		cfg.Roles = []string{config.RoleAnalyze, config.RoleAlert, config.RoleUI}
		cfg.Prices = append(price.Table{{Model: "deepseek-chat", Input: 0.28, CachedInput: 0.028, Output: 0.42}}, cfg.Prices...)
		cfg.Slack.Token, cfg.Slack.Channel, cfg.Slack.APIURL = "xoxb-test", "#oncall", slackServer.URL+"/api/"
	}))

	handbook := strings.Repeat("Answer in the language of the customer, and name the page of the handbook. ", 100)
	play := func(version string, system func() string) (agent *cachingAgent, stop func()) {
		agent = newCachingAgent(t, model.URL, col.NATSURL(), version, system)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); agent.run(ctx) }()
		stop = sync.OnceFunc(func() { cancel(); <-done })
		t.Cleanup(stop)
		return agent, stop
	}
	before, stop := play("2.4.9", func() string { return handbook })
	time.Sleep(15 * time.Second)
	stop()
	if len(workspace.Messages()) > 0 || before.lost > 0 {
		t.Fatalf("2.4.9 lost %d tokens of the cache; messages: %v", before.lost, workspace.Messages())
	}
	broken, stop := play("2.5.0", func() string { return "It is " + time.Now().Format(time.RFC3339Nano) + ".\n" + handbook })
	start, text, took := time.Now(), "", time.Duration(0)
	for ; text == "" && time.Since(start) < 90*time.Second; time.Sleep(50 * time.Millisecond) {
		if i := slices.IndexFunc(workspace.Messages(), func(m slack.Message) bool { return m.ThreadTS == "" }); i >= 0 {
			text, took = slack.Text(workspace.Messages()[i]), time.Since(start)
			broken.mu.Lock()
			lost := broken.lost
			broken.mu.Unlock()
			stop()
			t.Logf("after %s\n%s", took, text)
			day := float64(lost) * (0.28 - 0.028) / 1e6 / took.Seconds() * 86400
			found := regexp.MustCompile(`2\.5\.0 misses the prompt cache: \$([\d.]+) a day`).FindStringSubmatch(text)
			if found == nil {
				t.Fatal("the message does not say what it costs")
			}
			if told := must.Get(strconv.ParseFloat(found[1], 64))(t); told < day/1.5 || told > day*1.5 {
				t.Errorf("it costs $%.2f a day, the message says $%.2f", day, told)
			}
		}
	}
	wantAll(t, "Slack", text, "WARNING checkout-agent/planner", "the system prompt changed: it contains the time", "since `2.5.0`, last clean `2.4.9`", "reusable tokens were not read from the cache",
		"Put what changes, such as the time, into the newest message")
	if took > time.Minute {
		t.Errorf("Slack says so after %s", took)
	}
}
