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
)

// Paths below which the flavours are served; base URLs of OpenAI's SDKs, the last of Anthropic's. The demo uses the
// first two.
const (
	OpenAIPath    = "/openai/v1"
	DeepSeekPath  = "/deepseek/v1"
	QwenPath      = "/qwen/v1"
	GeminiPath    = "/gemini/v1beta/openai"
	MistralPath   = "/mistral/v1"
	GroqPath      = "/groq/v1"
	AnthropicPath = "/anthropic"
)

// maxRequest bounds a request body, in bytes.
const maxRequest = 16 << 20

// A Config says how the provider behaves; its zero value answers at once.
type Config struct {
	Seed uint64
	// MinLatency and MaxLatency bound the time before an answer.
	MinLatency, MaxLatency time.Duration
	// Model, if set, answers in place of the scripted model.
	Model Model
	// Lenient, if set, is asked at each request whether histories are taken as they are.
	Lenient func() bool
}

// Default is the provider of the demo.
func Default() Config {
	return Config{Seed: 1, MinLatency: 5 * time.Millisecond, MaxLatency: 60 * time.Millisecond}
}

// New returns the provider as an HTTP handler.
func New(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST "+OpenAIPath+"/chat/completions", &endpoint{cfg: cfg, words: openAI{}, prefix: "call_", pretty: true})
	mux.Handle("POST "+DeepSeekPath+"/chat/completions", &endpoint{cfg: cfg, words: deepSeek{}, prefix: "call_00_"})
	mux.Handle("POST "+QwenPath+"/chat/completions", &endpoint{cfg: cfg, words: qwen{}, prefix: "call_"})
	mux.Handle("POST "+GeminiPath+"/chat/completions", &endpoint{cfg: cfg, words: gemini{}, prefix: "function-call-", pretty: true})
	mux.Handle("POST "+MistralPath+"/chat/completions", &endpoint{cfg: cfg, words: mistral{}, prefix: "call"})
	mux.Handle("POST "+GroqPath+"/chat/completions", &endpoint{cfg: cfg, words: groq{}, prefix: "call_"})
	mux.Handle("POST "+AnthropicPath+"/v1/messages", &anthropic{cfg: cfg})
	return mux
}

// An endpoint is one flavour's chat/completions.
type endpoint struct {
	cfg    Config
	words  wording
	prefix string // of call ids
	pretty bool   // OpenAI indents its errors
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxRequest))
	if err != nil {
		http.Error(w, "request body: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	rng := e.draw(body)
	w.Header().Set("X-Request-Id", fmt.Sprintf("req_%016x%016x", rng.Uint64(), rng.Uint64()))
	if !e.think(hr.Context(), rng) {
		return
	}
	r, fault := check(e.words, body)
	if fault != nil && (r == nil || e.cfg.Lenient == nil || !e.cfg.Lenient()) {
		e.reject(w, fault)
		return
	}
	var a *reply
	if e.cfg.Model != nil {
		s := e.cfg.Model(Asked{Model: r.Model, Messages: r.Messages})
		a = said(&s, r, rng)
	} else {
		a = answer(r, rng, e.prefix)
	}
	if r.Stream {
		a.stream(hr.Context(), w, r.StreamOptions.IncludeUsage)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.completion()) // fails only where the caller has gone
}

// draw returns the source of all that looks random in the answer to body.
func (e *endpoint) draw(body []byte) *rand.Rand {
	h := fnv.New64a()
	h.Write(body)
	return rand.New(rand.NewPCG(e.cfg.Seed, h.Sum64()))
}

// think waits as long as the model would; false if the caller has gone.
func (e *endpoint) think(ctx context.Context, rng *rand.Rand) bool {
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
	if own, ok := e.words.(interface{ envelope(*apiError) any }); ok {
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
