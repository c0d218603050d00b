package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
)

// Paths of the base URLs for OpenAI's SDKs; the last two are for the SDKs of Anthropic and Google. The demo uses the first two.
const (
	OpenAIPath    = "/openai/v1"
	DeepSeekPath  = "/deepseek/v1"
	QwenPath      = "/qwen/v1"
	GeminiPath    = "/gemini/v1beta/openai"
	MistralPath   = "/mistral/v1"
	GroqPath      = "/groq/v1"
	AnthropicPath = "/anthropic"

	GenerateContentPath = "/gemini/v1beta"
)

// maxRequest is the maximum size of a request body in bytes.
const maxRequest = 16 << 20

// A Config configures the provider; the zero value answers immediately.
type Config struct {
	Seed uint64
	// MinLatency and MaxLatency bound the time before an answer.
	MinLatency, MaxLatency time.Duration
	// Model, if set, replaces the scripted model.
	Model Model
	// Lenient, if set, reports for each request whether invalid histories are accepted.
	Lenient func() bool
	// Cache, if set, is the prompt cache of OpenAI, Anthropic, Gemini and DeepSeek: answers report its use, as theirs do.
	Cache *promptcaching.Cache
}

// Default returns the configuration of the demo.
func Default() Config {
	return Config{Seed: 1, MinLatency: 5 * time.Millisecond, MaxLatency: 60 * time.Millisecond, Cache: promptcaching.New(promptcaching.Options{})}
}

// New returns the provider as an HTTP handler.
func New(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+OpenAIPath+"/chat/completions", &endpoint{cfg: cfg, flavor: openAI{}, prefix: "call_", pretty: true})
	mux.Handle("POST "+DeepSeekPath+"/chat/completions", &endpoint{cfg: cfg, flavor: deepSeek{}, prefix: "call_00_"})
	mux.Handle("POST "+QwenPath+"/chat/completions", &endpoint{cfg: cfg, flavor: qwen{}, prefix: "call_"})
	mux.Handle("POST "+GeminiPath+"/chat/completions", &endpoint{cfg: cfg, flavor: gemini{}, prefix: "function-call-", pretty: true})
	mux.Handle("POST "+MistralPath+"/chat/completions", &endpoint{cfg: cfg, flavor: mistral{}, prefix: "call"})
	mux.Handle("POST "+GroqPath+"/chat/completions", &endpoint{cfg: cfg, flavor: groq{}, prefix: "call_"})
	mux.Handle("POST "+AnthropicPath+"/v1/messages", &anthropic{cfg: cfg})
	mux.Handle("POST "+GenerateContentPath+"/models/{call}", &generate{cfg: cfg})
	mux.HandleFunc("POST "+GenerateContentPath+"/cachedContents", (&generate{cfg: cfg}).cachedContents)
	return mux
}

// An endpoint serves chat/completions in one flavor.
type endpoint struct {
	cfg    Config
	flavor flavor
	prefix string // prefix of call ids
	pretty bool   // OpenAI indents its errors
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxRequest))
	if err != nil {
		http.Error(w, "request body: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	rng := e.cfg.source(body)
	w.Header().Set("X-Request-Id", fmt.Sprintf("req_%016x%016x", rng.Uint64(), rng.Uint64()))
	if !e.wait(hr.Context(), rng) {
		return
	}
	r, fault := check(e.flavor, body)
	if fault != nil && (r == nil || e.cfg.Lenient == nil || !e.cfg.Lenient()) {
		e.reject(w, fault)
		return
	}
	cached := e.lookUp(hr, r)
	var a *reply
	if e.cfg.Model != nil {
		s := e.cfg.Model(Request{Model: r.Model, Messages: r.Messages})
		a = newReply(&s, r, rng)
	} else {
		a = script(r, rng, e.prefix)
	}
	if cached != nil {
		a.in, a.read, a.caching = cached.Prompt, cached.Usage, e.flavor.(caching)
		cached.Answered(a.message())
	}
	if r.Stream {
		a.stream(hr.Context(), w, r.StreamOptions.IncludeUsage)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.completion()) // fails only if the client disconnected
}

// A caching is a flavor of a provider with a prompt cache.
type caching interface {
	lookUp(c *promptcaching.Cache, r promptcaching.Request) *promptcaching.Call
	usage(u *wireUsage, c promptcaching.Usage) // as it reports it
}

// lookUp returns what the prompt cache has of a request; nil if there is none.
func (e *endpoint) lookUp(hr *http.Request, r *request) *promptcaching.Call {
	f, ok := e.flavor.(caching)
	if !ok || e.cfg.Cache == nil {
		return nil
	}
	return f.lookUp(e.cfg.Cache, promptcaching.Request{Key: hr.Header.Get("Authorization"), Model: r.Model, Body: r.body})
}

// source returns the random source for the answer to body.
func (c *Config) source(body []byte) *rand.Rand {
	h := fnv.New64a()
	h.Write(body)
	return rand.New(rand.NewPCG(c.Seed, h.Sum64()))
}

// wait waits for the latency of the model; it returns false if the client disconnected.
func (e *endpoint) wait(ctx context.Context, rng *rand.Rand) bool {
	d := e.cfg.MinLatency
	if spread := e.cfg.MaxLatency - e.cfg.MinLatency; spread > 0 {
		d += time.Duration(rng.Int64N(int64(spread)))
	}
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *endpoint) reject(w http.ResponseWriter, fault *apiError) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if e.pretty {
		enc.SetIndent("", "  ")
	}
	var answer any = map[string]*apiError{"error": fault}
	if own, ok := e.flavor.(interface{ envelope(*apiError) any }); ok {
		answer = own.envelope(fault)
	}
	if err := enc.Encode(answer); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(bytes.TrimRight(b.Bytes(), "\n"))
}
