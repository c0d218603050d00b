package promptcaching

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

type row = map[string]any

// A provider is a cache whose time the test moves.
type provider struct {
	*Cache
	t    *testing.T
	now  time.Time
	call func(r Request) *Call
}

func newProvider(t *testing.T, o Options) *provider {
	p := &provider{t: t, now: time.Unix(1e9, 0)}
	o.Now = func() time.Time { return p.now }
	p.Cache = New(o)
	return p
}

// begin looks up a request.
func (p *provider) begin(account, model string, body row) *Call {
	p.t.Helper()
	raw := must.Get(json.Marshal(body))(p.t)
	return p.call(Request{Key: account, Model: model, Body: raw})
}

// want makes a call and compares its usage.
func (p *provider) want(why string, want Usage, body row) {
	p.t.Helper()
	c := p.begin("key", "model", body)
	c.Answered(row{"role": "assistant", "content": say("answer", 400)})
	must.Equal(p.t, c.Usage, want, "%s", why)
	p.now = p.now.Add(time.Second)
}

// say returns a text of n tokens.
func say(what string, n int) string {
	return strings.Repeat(what+" lorem ipsum ", n*4/len(what)+1)[:n*4]
}

func msg(role string, content any) row { return row{"role": role, "content": content} }

// chatPrompt has a system prompt of n tokens, with 2 more, and texts of users of 400, with 1 more.
func chatPrompt(n int, texts ...string) row {
	list := []row{msg("system", say("be careful", n))}
	for i, s := range texts {
		list = append(list, msg([]string{"user", "assistant"}[i%2], say(s, 400)))
	}
	return row{"model": "model", "messages": list}
}

func TestOpenAI(t *testing.T) {
	p := newProvider(t, Options{})
	p.call = p.OpenAI
	p.want("too short", Usage{Prompt: 903}, chatPrompt(500, "a"))
	p.want("too short again", Usage{Prompt: 903}, chatPrompt(500, "a"))
	p.want("first", Usage{Prompt: 1403}, chatPrompt(1000, "a"))
	p.want("the same", Usage{Prompt: 1403, Read: 1280}, chatPrompt(1000, "a"))
	p.want("longer", Usage{Prompt: 2207, Read: 1280}, chatPrompt(1000, "a", "b", "c"))
	p.want("less than the minimum is the same", Usage{Prompt: 1403}, chatPrompt(1000, "x"))
	branch := chatPrompt(1000, "a", "b", "d")
	p.want("a branch", Usage{Prompt: 2207, Read: 1792}, branch)
	branch["tools"] = []row{{"type": "function"}}
	p.want("tools are first", Usage{Prompt: 2212}, branch)
	branch["response_format"] = row{"type": "json_schema"}
	p.want("the schema is before the system prompt", Usage{Prompt: 2218}, branch)
	branch["reasoning_effort"] = "low"
	p.want("another effort", Usage{Prompt: 2218}, branch)
	branch["tool_choice"] = "none"
	p.want("which tools are allowed does not count", Usage{Prompt: 2218, Read: 2176}, branch)
	must.Equal(t, p.begin("other", "model", chatPrompt(1000, "a")).Read, 0, "tokens that another account reads")
	must.Equal(t, p.begin("key", "other", chatPrompt(1000, "a")).Read, 0, "tokens that another model reads")
	keyed := chatPrompt(1000, "a")
	keyed["prompt_cache_key"] = "k"
	p.want("another key", Usage{Prompt: 1403}, keyed)
	p.now = p.now.Add(4 * time.Minute)
	p.want("soon", Usage{Prompt: 1403, Read: 1280}, keyed)
	p.now = p.now.Add(10 * time.Minute)
	p.want("late", Usage{Prompt: 1403}, keyed)
	keyed["prompt_cache_retention"] = "24h"
	p.now = p.now.Add(time.Hour)
	p.want("kept for long", Usage{Prompt: 1403}, keyed)
	p.now = p.now.Add(23 * time.Hour)
	p.want("the next day", Usage{Prompt: 1403, Read: 1280}, keyed)
}

// Calls whose answers have not begun do not see each other's prefixes.
func TestParallel(t *testing.T) {
	p := newProvider(t, Options{})
	for _, f := range []func(Request) *Call{p.OpenAI, p.DeepSeek, p.Gemini, p.Anthropic} {
		p.call = f
		body := chatPrompt(5000, "a")
		body["cache_control"] = row{"type": "ephemeral"}
		body["contents"] = []row{{"role": "user", "parts": []row{{"text": say("a", 5000)}}}}
		first, second := p.begin("key", "model", body), p.begin("key", "model", body)
		first.Answered(nil)
		if third := p.begin("key", "model", body); second.Read != 0 || third.Read == 0 {
			t.Errorf("read %d and %d", second.Read, third.Read)
		}
	}
}

// Above the rate of a machine, some requests of a prefix go to others, which have not seen it.
func TestRouting(t *testing.T) {
	missed := func(keys int) (n int) {
		p := newProvider(t, Options{})
		p.call = p.OpenAI
		for i := range 60 {
			body := chatPrompt(2000, fmt.Sprint("conversation ", i%12))
			if keys > 0 {
				body["prompt_cache_key"] = fmt.Sprint(i % keys)
			}
			c := p.begin("key", "model", body)
			c.Answered(nil)
			if i >= 12 && c.Read < 2304 {
				n++
			}
			p.now = p.now.Add(time.Second)
		}
		return n
	}
	if with, without := missed(12), missed(0); with != 0 || without == 0 {
		t.Errorf("%d calls miss with keys, %d without", with, without)
	}
}

func TestEviction(t *testing.T) {
	lost := 0
	p := newProvider(t, Options{Seed: 7, Evict: 0.2})
	p.call = p.OpenAI
	for range 500 {
		c := p.begin("key", "model", chatPrompt(2000, "a"))
		c.Answered(nil)
		if c.Read < 2304 {
			lost++
		}
		p.now = p.now.Add(time.Minute)
	}
	if lost < 50 || lost > 150 {
		t.Errorf("%d of 500 calls lost something", lost)
	}
}

// blocks returns texts of 100 tokens of a user; marked ones have a cache_control with a ttl.
func blocks(from, n int, marks map[int]string) []row {
	var list []row
	for i := from; i < from+n; i++ {
		b := row{"type": "text", "text": say(fmt.Sprint("part ", i), 100)}
		if ttl, ok := marks[i]; ok {
			b["cache_control"] = row{"type": "ephemeral", "ttl": ttl}
		}
		list = append(list, b)
	}
	return list
}

func TestAnthropic(t *testing.T) {
	p := newProvider(t, Options{})
	p.call = p.Anthropic
	request := func(n int, marks map[int]string, extra row) row {
		body := row{
			"tools":  []row{{"name": say("tool", 1000)}}, // 1002 tokens
			"system": []row{{"type": "text", "text": say("be careful", 998), "cache_control": row{"type": "ephemeral"}}},
			// The role is 5 bytes of each block, so blocks have 102 tokens.
			"messages": []row{msg("user", blocks(0, n, marks))},
		}
		maps.Copy(body, extra)
		return body
	}
	p.want("short", Usage{Prompt: 2102, Written: 2000}, request(1, nil, nil))
	p.want("only the system prompt is marked", Usage{Prompt: 2204, Read: 2000}, request(2, nil, nil))
	p.want("the last one is marked", Usage{Prompt: 2510, Read: 2000, Written: 510}, request(5, map[int]string{4: "5m"}, nil))
	p.want("another parameter of messages", Usage{Prompt: 2510, Read: 2000, Written: 510}, request(5, map[int]string{4: "5m"}, row{"tool_choice": row{"type": "any"}}))
	p.want("a parameter of the system prompt", Usage{Prompt: 2510, Written: 2510}, request(5, map[int]string{4: "5m"}, row{"output_config": row{"format": row{"type": "json_schema"}}}))
	p.want("19 blocks more", Usage{Prompt: 4448, Read: 2510, Written: 1938}, request(24, map[int]string{23: "5m"}, nil))
	p.want("20 blocks more", Usage{Prompt: 6488, Read: 2000, Written: 4488}, request(44, map[int]string{43: "5m"}, nil))
	p.want("marked for both", Usage{Prompt: 6692, Read: 6488, Written: 204, Hour: 102}, request(46, map[int]string{44: "1h", 45: "5m"}, nil))
	p.want("automatically", Usage{Prompt: 6794, Read: 6692, Written: 102}, request(47, nil, row{"cache_control": row{"type": "ephemeral"}}))
	p.now = p.now.Add(4 * time.Minute)
	p.want("read, so renewed", Usage{Prompt: 2204, Read: 2000}, request(2, nil, nil))
	p.now = p.now.Add(4 * time.Minute)
	p.want("after 8 minutes", Usage{Prompt: 2204, Read: 2000}, request(2, nil, nil))
	p.now = p.now.Add(6 * time.Minute)
	p.want("only what is held for an hour", Usage{Prompt: 6590, Read: 6590}, request(45, map[int]string{44: "5m"}, nil))
	p.now = p.now.Add(2 * time.Hour)
	p.want("too late", Usage{Prompt: 2204, Written: 2000}, request(2, nil, nil))
	must.Equal(t, p.begin("key", "claude-haiku-4-5", request(2, nil, nil)).Written, 0, "tokens written below the minimum of the model")
}

func TestGemini(t *testing.T) {
	p := newProvider(t, Options{})
	p.call = p.Gemini
	request := func(n int, texts ...string) row {
		body := row{"systemInstruction": row{"parts": []row{{"text": say("be careful", n)}}}}
		var contents []row
		for _, s := range texts {
			contents = append(contents, row{"role": "user", "parts": []row{{"text": say(s, 400)}}})
		}
		body["contents"] = contents
		return body
	}
	p.want("too short", Usage{Prompt: 3401}, request(3000, "a"))
	p.want("too short again", Usage{Prompt: 3401}, request(3000, "a"))
	p.want("first", Usage{Prompt: 5401}, request(5000, "a"))
	p.want("longer", Usage{Prompt: 5802, Read: 5376}, request(5000, "a", "b"))

	held, fault := p.CachedContent(Request{Key: "key", Body: []byte(`{"model":"models/model"}`)})
	if fault == "" {
		t.Error("cached too little")
	}
	raw, _ := json.Marshal(row{"model": "models/model", "contents": []row{{"role": "user", "parts": []row{{"text": say("book", 5000)}}}}})
	held, fault = p.CachedContent(Request{Key: "key", Body: raw})
	if fault != "" || held.Tokens != 5001 {
		t.Fatalf("%+v %s", held, fault)
	}
	named := row{"cachedContent": held.Name, "contents": []row{{"role": "user", "parts": []row{{"text": say("ask", 100)}}}}}
	p.want("named", Usage{Prompt: 5102, Read: 5001}, named)
	p.now = p.now.Add(time.Hour)
	p.want("no longer held", Usage{Prompt: 101}, named)
	if p.Held(held.Name) {
		t.Error("held for more than an hour")
	}
}

func TestDeepSeek(t *testing.T) {
	p := newProvider(t, Options{})
	p.call = p.DeepSeek
	p.want("first", Usage{Prompt: 1003}, chatPrompt(600, "a"))
	p.want("another question parts from it", Usage{Prompt: 1003}, chatPrompt(600, "b"))
	p.want("now what they share is known", Usage{Prompt: 1003, Read: 576}, chatPrompt(600, "c"))
	p.want("to the end of the request", Usage{Prompt: 1807, Read: 960}, chatPrompt(600, "a", "x", "y"))
	next := chatPrompt(600, "b")
	next["messages"] = append(next["messages"].([]row), msg("assistant", say("answer", 400)), msg("user", "more"))
	p.want("to the end of the answer", Usage{Prompt: 1408, Read: 1344}, next)
	p.now = p.now.Add(23 * time.Hour)
	p.want("the next day", Usage{Prompt: 1003, Read: 960}, chatPrompt(600, "a"))
	p.now = p.now.Add(25 * time.Hour)
	p.want("too late", Usage{Prompt: 1003}, chatPrompt(600, "a"))
}
