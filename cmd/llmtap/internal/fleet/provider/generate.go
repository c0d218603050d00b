package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
)

// generate is Gemini's own API. It does not check histories, as the endpoint in OpenAI's format does.
type generate struct{ cfg Config }

// A geminiStatus is the error of an answer.
type geminiStatus struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status"`
}

func (s *generate) reject(w http.ResponseWriter, code int, status, format string, args ...any) {
	answerJSON(w, code, map[string]geminiStatus{"error": {code, fmt.Sprintf(format, args...), status}})
}

// answerJSON writes an answer in JSON.
func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only if the client disconnected
}

// request returns the body and account of a call; false if it is answered already.
func (s *generate) request(w http.ResponseWriter, hr *http.Request) (promptcaching.Request, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, hr.Body, maxRequest))
	if err != nil || !json.Valid(body) {
		s.reject(w, http.StatusBadRequest, "INVALID_ARGUMENT", "Invalid JSON payload received.")
		return promptcaching.Request{}, false
	}
	return promptcaching.Request{Key: hr.Header.Get("X-Goog-Api-Key") + hr.URL.Query().Get("key"), Body: body}, true
}

// ServeHTTP implements http.Handler for generateContent and streamGenerateContent.
func (s *generate) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	model, method, _ := strings.Cut(hr.PathValue("call"), ":")
	asked, ok := s.request(w, hr)
	if !ok {
		return
	}
	asked.Model = model
	var r struct {
		Contents      []json.RawMessage `json:"contents"`
		CachedContent string            `json:"cachedContent"`
	}
	switch err := json.Unmarshal(asked.Body, &r); {
	case err != nil:
		s.reject(w, http.StatusBadRequest, "INVALID_ARGUMENT", "Invalid JSON payload received. %v", err)
		return
	case len(r.Contents) == 0:
		s.reject(w, http.StatusBadRequest, "INVALID_ARGUMENT", "* GenerateContentRequest.contents: contents is not specified")
		return
	case r.CachedContent != "" && (s.cfg.Cache == nil || !s.cfg.Cache.Held(r.CachedContent)):
		s.reject(w, http.StatusForbidden, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")
		return
	}
	usage := promptcaching.Usage{Prompt: len(asked.Body) / 4}
	var cached *promptcaching.Call
	if s.cfg.Cache != nil {
		cached = s.cfg.Cache.Gemini(asked)
		usage = cached.Usage
	}
	rng := s.cfg.source(asked.Body)
	answer := Answer{Text: sentences[rng.IntN(len(sentences))]}
	if s.cfg.Model != nil {
		answer = s.cfg.Model(Request{Model: model, Messages: r.Contents})
	}
	if cached != nil {
		cached.Answered(nil)
	}
	a := answer.generated(model, usage)
	if method != "streamGenerateContent" {
		answerJSON(w, http.StatusOK, a)
		return
	}
	data, err := json.Marshal(a)
	if err != nil {
		s.reject(w, http.StatusInternalServerError, "INTERNAL", "%v", err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\r\n\r\n", data)
}

// generated returns the answer in the format of generateContent.
func (s *Answer) generated(model string, u promptcaching.Usage) map[string]any {
	var parts []map[string]any
	if s.Text != "" || len(s.Calls) == 0 {
		parts = append(parts, map[string]any{"text": s.Text})
	}
	for _, c := range s.Calls {
		parts = append(parts, map[string]any{"functionCall": map[string]any{"name": c.Name, "args": json.RawMessage(c.Arguments)}})
	}
	const out = 20
	usage := map[string]any{"promptTokenCount": u.Prompt, "candidatesTokenCount": out, "totalTokenCount": u.Prompt + out}
	if u.Read > 0 { // it is left out otherwise
		usage["cachedContentTokenCount"] = u.Read
	}
	return map[string]any{
		"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": usage, "modelVersion": model,
	}
}

// cachedContents creates one.
func (s *generate) cachedContents(w http.ResponseWriter, hr *http.Request) {
	asked, ok := s.request(w, hr)
	if !ok {
		return
	}
	if s.cfg.Cache == nil {
		s.reject(w, http.StatusNotFound, "NOT_FOUND", "there is no cache")
		return
	}
	held, fault := s.cfg.Cache.CachedContent(asked)
	if fault != "" {
		s.reject(w, http.StatusBadRequest, "INVALID_ARGUMENT", "%s", fault)
		return
	}
	answerJSON(w, http.StatusOK, map[string]any{
		"name": held.Name, "expireTime": held.Expires.UTC().Format(time.RFC3339), "usageMetadata": map[string]int{"totalTokenCount": held.Tokens},
	})
}
