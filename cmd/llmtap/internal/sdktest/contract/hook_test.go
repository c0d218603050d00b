package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	goopenai "github.com/sashabaranov/go-openai"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// options are the options of a hook in any language.
type options struct {
	NATS        string `json:"nats"`     // empty if Endpoint is set
	Endpoint    string `json:"endpoint"` // URL of a receiver
	Token       string `json:"token"`
	Host        string `json:"host"`
	Capture     string `json:"capture"`
	MemoryLimit int64  `json:"memory_limit"`
}

// A call is one call of an agent, or Parallel concurrent ones.
type call struct {
	Client   string            `json:"client"`
	Base     string            `json:"base"` // URL of the provider
	Path     string            `json:"path"`
	Headers  map[string]string `json:"headers"`
	Body     []byte            `json:"body"`
	How      string            `json:"how"`
	Timeout  float64           `json:"timeout"`
	Labels   labels            `json:"labels"`
	Parallel int               `json:"parallel"`
	Tool     string            `json:"tool"`
	Chat     json.RawMessage   `json:"chat"`
	Retries  int               `json:"retries"`
}

// A result is what the agent observes of a raw call: the status and the received part of the decoded body. Error is the
// client's text if the call failed.
type result struct {
	Status int    `json:"status"`
	Body   []byte `json:"body"`
	Error  string `json:"error"`
}

// stats are the counters of a hook.
type stats struct {
	Flushed   bool   `json:"flushed"` // all events are stored
	Published uint64 `json:"published"`
	Events    uint64 `json:"events"`
	Dropped   uint64 `json:"dropped"`
	Pending   int    `json:"pending"`
	Open      int    `json:"open"`
	Bytes     int64  `json:"bytes"`
}

// A hook is the hook of one language in a process that makes calls.
type hook interface {
	open(t testing.TB, o *options)
	call(t testing.TB, c *call) []result
	// flush waits until all calls have ended and all events are stored, for at most seconds.
	flush(t testing.TB, seconds float64) stats
	close(t testing.TB)
}

// goHook is the Go hook in this process.
type goHook struct {
	h    *llmtap.Hook
	base *http.Transport
}

func (g *goHook) open(t testing.TB, o *options) {
	h, err := llmtap.Open(llmtap.Config{
		URL: o.NATS, Endpoint: o.Endpoint, Token: o.Token, Service: service, ServiceVersion: "1.2.3", Environment: "test", Capture: o.Capture, Hosts: []string{o.Host},
		Attrs: map[string]string{"region": "eu"}, MemoryLimit: o.MemoryLimit, Logger: quiet,
	})
	must.Do(t, err)
	g.h, g.base = h, &http.Transport{}
}

func (g *goHook) flush(t testing.TB, seconds float64) stats {
	limit := time.Duration(seconds * float64(time.Second))
	waitFor(limit, func() bool { return g.h.Stats().Open == 0 })
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := g.h.Flush(ctx)
	s := g.h.Stats()
	return stats{err == nil, s.Published, s.Events, s.Dropped, s.Pending, s.Open, s.Bytes}
}

func (g *goHook) close(t testing.TB) {
	must.Do(t, g.h.Close())
	g.base.CloseIdleConnections()
}

func (g *goHook) call(t testing.TB, c *call) []result {
	results := make([]result, c.Parallel)
	var all sync.WaitGroup
	for i := range c.Parallel {
		all.Go(func() {
			l := c.Labels
			if c.Parallel > 1 {
				l.Conversation = fmt.Sprintf("%s-%d", l.Conversation, i)
			}
			ctx := labelled(t.Context(), &l)
			if c.Tool != "" {
				g.h.RunStarted(ctx)
			}
			results[i] = g.one(ctx, c)
			if c.Tool != "" {
				g.h.ToolStarted(ctx, c.Tool)
				g.h.ToolEnded(ctx, c.Tool, errors.New("tool failed"))
				results[i] = g.one(ctx, c)
				g.h.RunEnded(ctx, nil)
			}
		})
	}
	all.Wait()
	return results
}

func labelled(ctx context.Context, l *labels) context.Context {
	for _, f := range []struct {
		with  func(context.Context, string) context.Context
		value string
	}{{llmtap.WithAgent, l.Agent}, {llmtap.WithStage, l.Stage}, {llmtap.WithConversation, l.Conversation}, {llmtap.WithRun, l.Run}, {llmtap.WithUser, l.User}} {
		if f.value != "" {
			ctx = f.with(ctx, f.value)
		}
	}
	for k, v := range l.Attrs {
		ctx = llmtap.WithAttr(ctx, k, v)
	}
	return ctx
}

func (g *goHook) one(ctx context.Context, c *call) result {
	client := &http.Client{Transport: g.h.Transport(g.base)}
	switch c.Client {
	case "openai":
		return failed(g.openai(ctx, c, client))
	case "go-openai":
		return failed(g.goOpenAI(ctx, c, client))
	case "anthropic":
		return failed(g.anthropic(ctx, c, client))
	}
	return raw(ctx, c, client)
}

func failed(err error) result {
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{}
}

// raw sends the bytes of c through net/http.
func raw(ctx context.Context, c *call, client *http.Client) (r result) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(c.Timeout*float64(time.Second)), errTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+c.Path, strings.NewReader(string(c.Body)))
	if err != nil {
		return failed(err)
	}
	for k, v := range c.Headers {
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close()
	r.Status = resp.StatusCode
	encoding := resp.Header.Get("Content-Encoding")
	defer func() { r.Body, _ = decode(encoding, r.Body) }() // a broken body up to the fault
	if c.How == "close" || c.How == "cancel" {
		p := make([]byte, 64<<10)
		n, err := resp.Body.Read(p)
		if c.How == "cancel" {
			cancel()
			for rest := p[n:]; err == nil && len(rest) > 0; {
				_, err = resp.Body.Read(rest) // what has already arrived, then the error
			}
		}
		r.Body = p[:n]
		if err != nil && !errors.Is(err, io.EOF) {
			r.Error = err.Error()
		}
		return r
	}
	r.Body, err = io.ReadAll(resp.Body)
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// openai makes calls until the model calls no more tools.
func (g *goHook) openai(ctx context.Context, c *call, client *http.Client) error {
	var p openai.ChatCompletionNewParams
	if err := json.Unmarshal(c.Chat, &p); err != nil {
		return err
	}
	api := openai.NewClient(option.WithBaseURL(c.Base+"/openai/v1"), option.WithAPIKey("sk-secret"), option.WithMaxRetries(c.Retries), option.WithHTTPClient(client))
	if streamed(c.Chat) {
		s := api.Chat.Completions.NewStreaming(ctx, p)
		defer s.Close()
		for s.Next() {
			s.Current()
		}
		return s.Err()
	}
	for {
		r, err := api.Chat.Completions.New(ctx, p)
		if err != nil {
			return err
		}
		m := r.Choices[0].Message
		if len(m.ToolCalls) == 0 {
			return nil
		}
		p.Messages = append(p.Messages, m.ToParam())
		for _, tc := range m.ToolCalls {
			p.Messages = append(p.Messages, openai.ToolMessage("-3 °C", tc.ID))
		}
	}
}

func (g *goHook) goOpenAI(ctx context.Context, c *call, client *http.Client) error {
	var req goopenai.ChatCompletionRequest
	if err := json.Unmarshal(c.Chat, &req); err != nil {
		return err
	}
	cfg := goopenai.DefaultConfig("sk-secret")
	cfg.BaseURL, cfg.HTTPClient = c.Base+"/openai/v1", client
	api := goopenai.NewClientWithConfig(cfg)
	if req.Stream {
		s, err := api.CreateChatCompletionStream(ctx, req)
		if err != nil {
			return err
		}
		defer s.Close()
		for err == nil {
			_, err = s.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	for {
		r, err := api.CreateChatCompletion(ctx, req)
		if err != nil || len(r.Choices[0].Message.ToolCalls) == 0 {
			return err
		}
		req.Messages = append(req.Messages, r.Choices[0].Message)
		for _, tc := range r.Choices[0].Message.ToolCalls {
			req.Messages = append(req.Messages, goopenai.ChatCompletionMessage{Role: goopenai.ChatMessageRoleTool, ToolCallID: tc.ID, Content: "-3 °C"})
		}
	}
}

func (g *goHook) anthropic(ctx context.Context, c *call, client *http.Client) error {
	var p anthropic.MessageNewParams
	if err := json.Unmarshal(c.Chat, &p); err != nil {
		return err
	}
	api := anthropic.NewClient(anthropicoption.WithBaseURL(c.Base+"/anthropic"), anthropicoption.WithAPIKey("sk-secret"),
		anthropicoption.WithMaxRetries(c.Retries), anthropicoption.WithHTTPClient(client))
	if streamed(c.Chat) {
		s := api.Messages.NewStreaming(ctx, p)
		defer s.Close()
		for s.Next() {
			s.Current()
		}
		return s.Err()
	}
	_, err := api.Messages.New(ctx, p)
	return err
}

func streamed(chat json.RawMessage) bool {
	var p struct{ Stream bool }
	return json.Unmarshal(chat, &p) == nil && p.Stream
}

// environ returns the environment of a runner without variables that configure a hook.
func environ(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "OTEL_") || strings.HasPrefix(s, "LLMTAP_") || strings.Contains(strings.ToLower(s), "_proxy=")
	})
	return append(env, more...)
}
