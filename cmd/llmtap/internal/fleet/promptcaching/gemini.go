package promptcaching

import (
	"fmt"
	"strings"
	"time"
)

// geminiStep is not documented.
const geminiStep = 64

// A content is one of Gemini's cachedContents.
type content struct {
	account, model string
	prompt         prompt
	expires        time.Time
}

// geminiMinimum returns the fewest tokens that are cached.
func geminiMinimum(model string) int {
	if strings.HasPrefix(model, "gemini-2.5-") {
		return 2048
	}
	return 4096
}

// Gemini looks up a request for content. The model is in its URL.
func (c *Cache) Gemini(r Request) *Call {
	o := decode(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	p, named := geminiPrompt(o), 0
	if held := c.named[text(o["cachedContent"])]; held != nil && held.account == c.owner(r.Key) && held.model == r.Model && c.now().Before(held.expires) {
		whole := held.prompt
		whole.pieces = append([]string(nil), whole.pieces...)
		whole.add(p.pieces...)
		p, named = whole, held.prompt.length
	}
	call := c.implicit(key(0).with("gemini").with(c.owner(r.Key)).with(r.Model), &p, geminiMinimum(r.Model), geminiStep, c.fewMinutes())
	call.Read = max(call.Read, named)
	return call
}

// A CachedContent is what can be named in later requests.
type CachedContent struct {
	Name    string
	Tokens  int
	Expires time.Time
}

// CachedContent stores content for later requests, or returns why it does not.
func (c *Cache) CachedContent(r Request) (CachedContent, string) {
	o := decode(r.Body)
	p, model := geminiPrompt(o), strings.TrimPrefix(text(o["model"]), "models/")
	if n := geminiMinimum(model); p.length < n {
		return CachedContent{}, fmt.Sprintf("Cached content is too small. total_token_count=%d, min_total_token_count=%d", p.length, n)
	}
	ttl, err := time.ParseDuration(text(o["ttl"]))
	if err != nil {
		ttl = time.Hour
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	held := CachedContent{Name: fmt.Sprintf("cachedContents/%016x", c.rng.Uint64()), Tokens: p.length, Expires: c.now().Add(ttl)}
	c.named[held.Name] = &content{account: c.owner(r.Key), model: model, prompt: p, expires: held.Expires}
	return held, ""
}

// Held reports whether a cachedContent exists. Requests that name another one are refused.
func (c *Cache) Held(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.named[name]
	return held != nil && c.now().Before(held.expires)
}

// geminiPrompt renders the system instruction, tools and contents.
func geminiPrompt(o object) (p prompt) {
	for _, name := range []string{"systemInstruction", "system_instruction"} {
		p.add(parts(decode(o[name])["parts"])...)
	}
	for _, t := range list(o["tools"]) {
		for _, f := range list(decode(t)["functionDeclarations"]) {
			p.add(compact(f))
		}
	}
	for _, raw := range list(o["contents"]) {
		m := decode(raw)
		p.add(text(m["role"]))
		p.add(parts(m["parts"])...)
	}
	return p
}
