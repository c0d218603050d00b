package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/natsserver"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// startNATS returns the URL of a nats-server with the stream of the contract, and the stream.
func startNATS(t *testing.T) (string, jetstream.Stream) {
	t.Helper()
	cfg := natsserver.Default()
	cfg.AllowAll = true
	cfg.Dir, cfg.Port, cfg.Logger = t.TempDir(), -1, slog.New(slog.DiscardHandler)
	srv := must.Get(natsserver.Start(t.Context(), cfg))(t)
	t.Cleanup(srv.Shutdown)
	nc := must.Get(nats.Connect(srv.URL()))(t)
	t.Cleanup(nc.Close)
	js := must.Get(jetstream.New(nc))(t)
	events := jetstream.StreamConfig{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}, Storage: jetstream.MemoryStorage}
	stream := must.Get(js.CreateStream(t.Context(), events))(t)
	return srv.URL(), stream
}

// hosts maps the hosts that agents call to the paths of the fake provider.
var hosts = map[string]string{
	"api.openai.com":                    provider.OpenAIPath,
	"api.deepseek.com":                  provider.DeepSeekPath,
	"dashscope.aliyuncs.com":            provider.QwenPath,
	"generativelanguage.googleapis.com": provider.GeminiPath,
	"api.mistral.ai":                    provider.MistralPath,
	"api.groq.com":                      provider.GroqPath,
	"api.anthropic.com":                 provider.AnthropicPath,
}

// byHost passes calls to the fake provider of their host, and counts them.
func byHost(p http.Handler, sent *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sent.Add(1)
		if strings.Contains(req.URL.Path, ":generateContent") {
			req.URL.Path = "/gemini" + req.URL.Path
			p.ServeHTTP(w, req)
			return
		}
		for _, path := range []string{"/chat/completions", "/v1/messages"} {
			if prefix, ok := hosts[req.Host]; ok && strings.HasSuffix(req.URL.Path, path) {
				req.URL.Path = prefix + path
				p.ServeHTTP(w, req)
				return
			}
		}
		http.Error(w, "no provider for "+req.Host+req.URL.Path, http.StatusMisdirectedRequest)
	})
}

// A redirect sends calls to the fake provider. It is below the hook, which records the original URL.
type redirect struct{ to *url.URL }

func (r redirect) RoundTrip(req *http.Request) (*http.Response, error) {
	clone := req.Clone(req.Context())
	clone.URL.Scheme, clone.URL.Host, clone.Host = r.to.Scheme, r.to.Host, req.URL.Host
	return http.DefaultTransport.RoundTrip(clone)
}

// A world is one run of a scenario: its provider, its agents and the published events.
type world struct {
	t       *testing.T
	natsURL string
	stream  jetstream.Stream
	service string
	mode    mode
	server  *httptest.Server
	nodes   *nodes // nil: agents use the Go hook

	mu      sync.Mutex // guards the fields below
	says    []provider.Answer
	model   provider.Model // replaces says
	front   http.Handler   // replaces the provider
	lenient bool
	calls   int // tool calls made by the model

	sent   atomic.Int64
	stored chan string // ids of exchanges stored by NATS, both halves
	whole  int64       // received from stored

	hooks  []hook
	late   time.Duration // added to the times of events
	next   uint64        // sequence in the stream
	events []*event.Event
}

// A hook records an agent.
type hook interface {
	Transport(base http.RoundTripper) http.RoundTripper
	ToolStarted(ctx context.Context, callID string)
	ToolEnded(ctx context.Context, callID string, err error)
	Flush(ctx context.Context) error
	Close() error // it fails if an event was dropped
}

type goHook struct{ *llmtap.Hook }

func (h goHook) Close() error {
	err := h.Hook.Close()
	if s := h.Stats(); s.Dropped > 0 {
		err = errors.Join(err, fmt.Errorf("dropped: %+v", s))
	}
	return err
}

func newWorld(t *testing.T, natsURL string, stream jetstream.Stream, service string, m mode, says []provider.Answer) *world {
	t.Helper()
	info := must.Get(stream.Info(t.Context()))(t)
	w := &world{
		t: t, natsURL: natsURL, stream: stream, service: service, mode: m, says: says, stored: make(chan string, 1000),
		next: info.State.LastSeq + 1,
	}
	strict := provider.New(provider.Config{Seed: 1, Model: w.answer, Lenient: func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.lenient
	}})
	w.server = httptest.NewServer(byHost(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		w.mu.Lock()
		h := w.front
		w.mu.Unlock()
		if h == nil {
			h = strict
		}
		h.ServeHTTP(rw, req)
	}), &w.sent))
	t.Cleanup(w.server.Close)
	return w
}

// answer is the model: it returns the answers of the scenario, then a final text. Calls without an id get one.
func (w *world) answer(asked provider.Request) provider.Answer {
	w.mu.Lock()
	model := w.model
	s := provider.Answer{Text: "All of it is done; there is nothing left to look up."}
	if model == nil && len(w.says) > 0 {
		s, w.says = w.says[0], w.says[1:]
	}
	w.mu.Unlock()
	if model != nil {
		s = model(asked)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := s
	out.Calls = nil
	for _, c := range s.Calls {
		w.calls++
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_00_%020d", 7919*w.calls)
		}
		out.Calls = append(out.Calls, c)
	}
	return out
}

// accept makes the provider accept or reject invalid histories.
func (w *world) accept(all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lenient = all
}

// later adds d to the times of the following events.
func (w *world) later(d time.Duration) {
	w.collect()
	w.late += d
}

// collect waits for the end of all calls and reads their events.
func (w *world) collect() {
	w.t.Helper()
	for ; w.whole < w.sent.Load(); w.whole++ {
		select { // the hook sees the end of an answer later than the agent
		case <-w.stored:
		case <-w.t.Context().Done():
			w.t.Fatal("a call was not published")
		}
	}
	w.take()
}

// take reads the events published so far; calls may be pending.
func (w *world) take() {
	w.t.Helper()
	for _, h := range w.hooks {
		must.Do(w.t, h.Flush(w.t.Context()))
	}
	for ; ; w.next++ {
		m, err := w.stream.GetMsg(w.t.Context(), w.next)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return
		}
		must.Do(w.t, err)
		for _, ev := range must.Get(event.DecodeAll(m.Subject, event.Header(m.Header), m.Data))(w.t) {
			ev.Time = ev.Time.Add(w.late)
			w.events = append(w.events, ev)
		}
	}
}

// analyze runs an analyzer over the events, one per second, plus the pauses of later.
func (w *world) analyze() *analyzer.Output {
	w.t.Helper()
	w.collect()
	for _, h := range w.hooks {
		if err := h.Close(); err != nil {
			w.t.Errorf("hook: %v", err)
		}
	}
	cfg := analyzer.Default()
	cfg.Epoch = 1
	an, out := analyzer.New(cfg, rules.InOrder, prometheus.NewRegistry()), new(analyzer.Output)
	if len(w.events) == 0 {
		w.t.Fatal("no events were published")
	}
	start := w.events[0].Time
	var at time.Time
	for i, ev := range w.events {
		at = start.Add(time.Duration(i) * time.Second)
		if ev.Time.After(at) { // after a pause
			start = start.Add(ev.Time.Sub(at))
			at = ev.Time
		}
		an.Process(ev, analyzer.Position{Seq: uint64(i + 1), Time: at}, true, out)
	}
	an.AdvanceTo(at.Add(time.Hour), true, out)
	return out
}

// An agent is one process of the service with a hook and a client of one provider.
type agent struct {
	*world
	ctx    context.Context
	hook   hook
	client openai.Client
	model  string
	tools  []string
	failed int // failed calls
}

// Models and the hosts that serve them.
const (
	deepSeek = "deepseek-chat"
	thinking = "deepseek-v4-pro"
	gpt      = "gpt-5-mini"
	qwen     = "qwen-plus"
	gemini2  = "gemini-2.5-flash"
	gemini3  = "gemini-3-pro"
	mistral  = "mistral-large-latest"
	llama    = "llama-3.3-70b-versatile" // at Groq
	claude   = "claude-sonnet-4-5"
)

var baseURLs = map[string]string{
	deepSeek: "https://api.deepseek.com/v1", thinking: "https://api.deepseek.com/v1",
	gpt:     "https://api.openai.com/v1",
	qwen:    "https://dashscope.aliyuncs.com/compatible-mode/v1",
	gemini2: "https://generativelanguage.googleapis.com/v1beta/openai", gemini3: "https://generativelanguage.googleapis.com/v1beta/openai",
	mistral: "https://api.mistral.ai/v1",
	llama:   "https://api.groq.com/openai/v1",
}

// process starts another process of the service, which continues the conversation.
func (w *world) process(model string) *agent {
	w.t.Helper()
	h := w.open()
	w.hooks = append(w.hooks, h)
	a := &agent{world: w, hook: h, tools: []string{"read_file", "write_file", "search"}}
	return a.in("conversation-1").with(model)
}

// open opens a hook for another process.
func (w *world) open() hook {
	w.t.Helper()
	if w.nodes != nil {
		return w.nodes.open(w)
	}
	h, err := llmtap.Open(llmtap.Config{
		URL: w.natsURL, Service: w.service, ServiceVersion: "1.0.0", Environment: "test", Agent: "agent", Capture: w.mode.capture,
		Logger: slog.New(slog.DiscardHandler), FlushTimeout: 10 * time.Second, OnPublished: func(id string) { w.stored <- id },
	})
	must.Do(w.t, err)
	return goHook{h}
}

// with returns the same process with a client for another model.
func (a *agent) with(model string) *agent {
	b := *a
	to := must.Get(url.Parse(a.server.URL))(a.t)
	b.model, b.client = model, openai.NewClient(option.WithBaseURL(baseURLs[model]), option.WithAPIKey("test"), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: a.hook.Transport(redirect{to})}))
	return &b
}

// in returns the same process in another conversation and run; an empty id means no conversation.
func (a *agent) in(conversation string) *agent {
	b := *a
	l := labels{Run: fmt.Sprintf("run-%d-%s", len(a.hooks), conversation)}
	b.ctx = llmtap.WithRun(a.t.Context(), l.Run)
	if conversation != "" && a.mode.ids {
		l.Conversation = conversation
		b.ctx = llmtap.WithConversation(b.ctx, conversation)
	}
	b.ctx = context.WithValue(b.ctx, labelsKey{}, l)
	return &b
}

// restart ends this process without a notice, as in a crash, and starts the next one.
func (a *agent) restart() *agent {
	a.collect()
	return a.process(a.model)
}

func (a *agent) params(history []msg) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{Model: a.model, Messages: history}
	for _, name := range a.tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: name, Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"path": map[string]string{"type": "string"}}},
		}))
	}
	return p
}

// ask makes a call. An error looks like an answer without calls, as in the agents of the incidents.
func (a *agent) ask(history []msg) openai.ChatCompletionMessage {
	answer, err := a.client.Chat.Completions.New(a.ctx, a.params(history))
	if err != nil || len(answer.Choices) == 0 {
		a.failed++
		return openai.ChatCompletionMessage{}
	}
	return answer.Choices[0].Message
}

// stream makes a streamed call and returns the received chunks.
func (a *agent) stream(history []msg) []openai.ChatCompletionChunk {
	s := a.client.Chat.Completions.NewStreaming(a.ctx, a.params(history))
	defer s.Close()
	var chunks []openai.ChatCompletionChunk
	for s.Next() {
		chunks = append(chunks, s.Current())
	}
	if err := s.Err(); err != nil {
		a.failed++
	}
	return chunks
}

// unseen discards the events so far: the analyzer was not running yet.
func (w *world) unseen() {
	w.collect()
	w.events = nil
}
