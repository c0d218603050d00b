package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/promptcaching"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Agents that send long prompts, whose provider caches them.

// A cachingDialect is the API of a provider with a prompt cache.
type cachingDialect struct {
	name    string
	models  [2]string // the second one is for those who switch
	minimum int       // tokens that the provider caches at least, in every version of its documentation
	unit    int64     // if fewer tokens were not read, nothing has to be said: three steps, or twice Gemini's minimum because it documents no step
	long    int       // how much longer than others texts are, so that more than a unit is lost
	encode  func(p *longPrompt) (url string, body row)
	key     func(h http.Header, key string)
	system  int // 1 if the system prompt is the first message
}

var cachingDialects = []*cachingDialect{
	{"openai", [2]string{"gpt-5-mini", "gpt-5"}, 1024, 3 * 128, 1, func(p *longPrompt) (string, row) { return p.chat("https://api.openai.com/v1") }, bearer, 1},
	{"anthropic", [2]string{"claude-sonnet-4-5", "claude-opus-4-1"}, 1024, 128, 1, (*longPrompt).anthropic, func(h http.Header, key string) { h.Set("X-Api-Key", key) }, 0},
	{"gemini", [2]string{"gemini-2.5-flash", "gemini-2.5-pro"}, 4096, 2*2048 + 64, 10, (*longPrompt).gemini, func(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) }, 0},
	{"deepseek", [2]string{"deepseek-chat", "deepseek-reasoner"}, 64, 3 * 64, 1, func(p *longPrompt) (string, row) { return p.chat("https://api.deepseek.com/v1") }, bearer, 1},
}

func bearer(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// A longPrompt is what an agent sends, in no dialect.
type longPrompt struct {
	model  string
	tools  []longTool
	system []string // parts
	turns  []longTurn
	extra  row // parameters, as the dialect names them
	stream bool

	// Marks of Anthropic.
	markSystem, markLast bool
	ttl                  string // "": the default
}

type longTool struct{ name, description, property string }

// A longTurn is a text, an answer or the results of its calls.
type longTurn struct {
	role    string // user or assistant
	text    string
	image   string // of a user
	calls   []provider.Call
	results []longResult
}

type longResult struct{ id, name, text string }

func (t longTool) schema() row {
	return row{"type": "object", "properties": row{t.property: row{"type": "string"}}, "required": []string{t.property}}
}

func (p *longPrompt) with(body row) row {
	maps.Copy(body, p.extra)
	return body
}

func (p *longPrompt) chat(base string) (string, row) {
	messages := []row{{"role": "system", "content": strings.Join(p.system, "\n\n")}}
	for _, t := range p.turns {
		switch {
		case t.role == "assistant":
			m := row{"role": "assistant", "content": t.text}
			var list []row
			for _, c := range t.calls {
				list = append(list, row{"id": c.ID, "type": "function", "function": row{"name": c.Name, "arguments": c.Arguments}})
			}
			if list != nil {
				m["tool_calls"], m["content"] = list, nil
			}
			messages = append(messages, m)
		case t.results != nil:
			for _, r := range t.results {
				messages = append(messages, row{"role": "tool", "tool_call_id": r.id, "content": r.text})
			}
		case t.image != "":
			messages = append(messages, row{"role": "user", "content": []row{
				{"type": "text", "text": t.text}, {"type": "image_url", "image_url": row{"url": "data:image/png;base64," + t.image}},
			}})
		default:
			messages = append(messages, row{"role": "user", "content": t.text})
		}
	}
	body := row{"model": p.model, "messages": messages}
	var tools []row
	for _, t := range p.tools {
		tools = append(tools, row{"type": "function", "function": row{"name": t.name, "description": t.description, "parameters": t.schema()}})
	}
	if tools != nil {
		body["tools"] = tools
	}
	if p.stream {
		body["stream"], body["stream_options"] = true, row{"include_usage": true}
	}
	return base + "/chat/completions", p.with(body)
}

func (p *longPrompt) anthropic() (string, row) {
	mark := row{"type": "ephemeral"}
	if p.ttl != "" {
		mark["ttl"] = p.ttl
	}
	var system, messages, tools []row
	for _, s := range p.system {
		system = append(system, row{"type": "text", "text": s})
	}
	if p.markSystem {
		system[len(system)-1]["cache_control"] = mark
	}
	for _, t := range p.turns {
		var content []row
		if t.text != "" {
			content = append(content, row{"type": "text", "text": t.text})
		}
		if t.image != "" {
			content = append(content, row{"type": "image", "source": row{"type": "base64", "media_type": "image/png", "data": t.image}})
		}
		for _, c := range t.calls {
			content = append(content, row{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)})
		}
		for _, r := range t.results {
			content = append(content, row{"type": "tool_result", "tool_use_id": r.id, "content": r.text})
		}
		messages = append(messages, row{"role": t.role, "content": content})
	}
	if p.markLast {
		content := messages[len(messages)-1]["content"].([]row)
		content[len(content)-1]["cache_control"] = mark
	}
	body := row{"model": p.model, "max_tokens": 2000, "system": system, "messages": messages}
	for _, t := range p.tools {
		tools = append(tools, row{"name": t.name, "description": t.description, "input_schema": t.schema()})
	}
	if tools != nil {
		body["tools"] = tools
	}
	if p.stream {
		body["stream"] = true
	}
	return "https://api.anthropic.com/v1/messages", p.with(body)
}

func (p *longPrompt) gemini() (string, row) {
	part := func(s string) row { return row{"text": s} }
	var system, contents, tools []row
	for _, s := range p.system {
		system = append(system, part(s))
	}
	for _, t := range p.turns {
		role, parts := "user", []row(nil)
		if t.role == "assistant" {
			role = "model"
		}
		if t.text != "" {
			parts = append(parts, part(t.text))
		}
		if t.image != "" {
			parts = append(parts, row{"inlineData": row{"mimeType": "image/png", "data": t.image}})
		}
		for _, c := range t.calls {
			parts = append(parts, row{"functionCall": row{"name": c.Name, "args": json.RawMessage(c.Arguments)}})
		}
		for _, r := range t.results {
			parts = append(parts, row{"functionResponse": row{"name": r.name, "response": row{"result": r.text}}})
		}
		contents = append(contents, row{"role": role, "parts": parts})
	}
	body := row{"systemInstruction": row{"parts": system}, "contents": contents}
	for _, t := range p.tools {
		tools = append(tools, row{"name": t.name, "description": t.description, "parameters": t.schema()})
	}
	if tools != nil {
		body["tools"] = []row{{"functionDeclarations": tools}}
	}
	return "https://generativelanguage.googleapis.com/v1beta/models/" + p.model + ":generateContent", p.with(body)
}

// A cachingRun is one run of agents whose provider caches, in time of its own.
type cachingRun struct {
	*world
	*cachingDialect
	rng   *rand.Rand
	cache *promptcaching.Cache
	id    string

	lock    sync.Mutex // guards the fields below
	now     time.Time
	calls   []*madeCall
	answers []provider.Answer // of the next calls
	down    bool              // the provider does not answer
	parties int               // calls that are made at the same time; 0: none
	arrived chan struct{}
	go_     chan struct{}
}

// A madeCall is a call with what is expected to be said about it.
type madeCall struct {
	agent      *longAgent
	start, end time.Time
	failed     bool
	want       *broken // nil: nothing that an agent could avoid
	kept       int64   // tokens behind what broke the prefix that the prompt still has of the one before; -1 if it is all
	may        bool    // the want is one of the calls of the run; which ones depends on the provider
}

// A broken is what broke the prefix of a call.
type broken struct {
	reason   string
	elements []string // alternatives; none: any
	detail   string   // "": any
}

func newCachingRun(w *world, d *cachingDialect, id string, rng *rand.Rand) *cachingRun {
	r := &cachingRun{world: w, cachingDialect: d, rng: rng, id: id, now: time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC).Add(time.Duration(rng.IntN(500)) * time.Minute)}
	r.caches(0)
	return r
}

// caches starts the provider, which evicts in a share of cases.
func (r *cachingRun) caches(evict float64) {
	r.cache = promptcaching.New(promptcaching.Options{Now: r.time, Seed: r.rng.Uint64(), Evict: evict, Owner: func(key string) string {
		account, _, _ := strings.Cut(key, ".") // a key of an account ends in its number
		return account
	}})
	strict := provider.New(provider.Config{Seed: 1, Model: r.answer, Cache: r.cache})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.front = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.lock.Lock()
		down := r.down
		r.lock.Unlock()
		if down {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","code":503,"status":"UNAVAILABLE","message":"The model is overloaded. Please try again later."}}`)
			return
		}
		strict.ServeHTTP(w, req)
	})
}

func (r *cachingRun) time() time.Time {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.now
}

// pause lets time pass.
func (r *cachingRun) pause(d time.Duration) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.now = r.now.Add(d)
}

// answer is the model. It takes a few seconds.
func (r *cachingRun) answer(provider.Request) provider.Answer {
	r.lock.Lock()
	a := r.answers[0]
	r.answers = r.answers[1:]
	if r.parties == 0 {
		r.now = r.now.Add(time.Duration(500+r.rng.IntN(3000)) * time.Millisecond)
		r.lock.Unlock()
		return a
	}
	r.lock.Unlock()
	r.arrived <- struct{}{}
	<-r.go_
	return a
}

// together makes calls of agents at the same time.
func (r *cachingRun) together(agents ...*longAgent) {
	r.lock.Lock()
	r.parties, r.arrived, r.go_ = len(agents), make(chan struct{}), make(chan struct{})
	r.lock.Unlock()
	var all sync.WaitGroup
	for _, a := range agents {
		all.Go(a.step)
		<-r.arrived
	}
	r.lock.Lock()
	r.now = r.now.Add(2 * time.Second)
	r.parties = 0
	r.lock.Unlock()
	close(r.go_)
	all.Wait()
}

// A longAgent is an agent in a conversation.
type longAgent struct {
	*cachingRun
	longPrompt
	hook         hook
	conversation string
	stage        string
	key          string // of its account
	want         *broken
	kept         int64
	may          bool
}

// agent returns an agent whose prompt the provider caches.
func (r *cachingRun) agent(conversation string) *longAgent {
	a := &longAgent{cachingRun: r, hook: r.hooks[0], conversation: conversation, stage: "agent", key: "sk-" + r.id, kept: -1}
	a.model, a.extra = r.models[0], row{}
	a.stream = r.rng.IntN(4) == 0
	for i := range 3 + r.rng.IntN(5) {
		a.tools = append(a.tools, r.tool(i))
	}
	a.system = []string{"You are an agent of team " + r.id + ". " + r.words(r.minimum+r.minimum/4+r.rng.IntN(r.minimum)+100)}
	a.markSystem, a.markLast = true, true
	a.asks()
	return a
}

// tool returns the i-th of the tools, which have different names.
func (r *cachingRun) tool(i int) longTool {
	names := []string{"read_file", "write_file", "search", "list_dir", "run_tests", "open_ticket", "send_mail", "query_db", "fetch_url"}
	return longTool{names[i%len(names)], r.words(r.long * (40 + r.rng.IntN(80))), []string{"path", "query", "id", "text"}[r.rng.IntN(4)]}
}

var vocabulary = strings.Fields(`the a report of customers order account system value when before every answer must never tool result check open close
	review region price list window team plan build error status table record field small large first last write read always only if then name place
	question invoice parcel address courier warehouse refund policy escalate summary language polite short detail evidence source number total`)

// words returns a text of about n tokens.
func (r *cachingRun) words(n int) string {
	var b strings.Builder
	for b.Len() < 4*n {
		b.WriteString(vocabulary[r.rng.IntN(len(vocabulary))])
		if r.rng.IntN(12) == 0 {
			b.WriteByte('.')
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// other returns an agent with the same prompt in another conversation.
func (a *longAgent) other(conversation string) *longAgent {
	b := *a
	b.conversation, b.turns, b.want, b.kept, b.may = conversation, nil, nil, -1, false
	b.tools, b.system = append([]longTool(nil), a.tools...), append([]string(nil), a.system...)
	b.extra = b.with(row{})
	b.asks()
	return &b
}

// branch returns the same conversation.
func (a *longAgent) branch() *longAgent {
	b := a.other(a.conversation)
	b.turns = append([]longTurn(nil), a.turns...)
	return b
}

// asks adds a text of the user.
func (a *longAgent) asks() {
	a.turns = append(a.turns, longTurn{role: "user", text: a.words(a.long * (150 + a.rng.IntN(200)))})
}

// expect says what breaks the prefix of the next call.
func (a *longAgent) expect(reason string, elements ...string) {
	a.want = &broken{reason: reason, elements: elements}
}

// keeps says what the next prompt still has of the one before, behind what broke the prefix. Only that could have been read: what was cut or
// summarized is in no prompt.
func (a *longAgent) keeps(turns []longTurn) {
	bytes := 0
	for _, t := range turns {
		bytes += len(t.text)
		for _, c := range t.calls {
			bytes += len(c.Name) + len(c.Arguments)
		}
		for _, r := range t.results {
			bytes += len(r.text)
		}
	}
	a.kept = int64(bytes / 4) // as the provider counts
}

// element returns the name of the first message of a turn.
func (a *longAgent) element(turn int) string {
	n := a.cachingDialect.system
	for _, t := range a.turns[:turn] {
		if n++; a.cachingDialect.system == 1 { // each result is a message
			n += max(1, len(t.results)) - 1
		}
	}
	return fmt.Sprintf("messages[%d]", n)
}

// draft decides what the model answers: a text or calls.
func (a *longAgent) draft(calls int) provider.Answer {
	if calls == 0 {
		return provider.Answer{Text: a.words(60 + a.rng.IntN(100))}
	}
	var s provider.Answer
	for range calls {
		t := a.tools[a.rng.IntN(len(a.tools))]
		args, _ := json.Marshal(map[string]string{t.property: a.words(10)})
		s.Calls = append(s.Calls, provider.Call{ID: fmt.Sprintf("call_%016x%04x", a.rng.Uint64(), a.rng.Uint32()>>16), Name: t.name, Arguments: string(args)})
	}
	return s
}

// step makes a call, and does what the model says or asks what comes next.
func (a *longAgent) step() { a.stepWith(max(0, a.rng.IntN(5)-2)) }

// stepWith makes a call that the model answers with calls of tools.
func (a *longAgent) stepWith(calls int) {
	if len(a.tools) == 0 {
		calls = 0
	}
	a.lock.Lock()
	said := a.draft(calls)
	a.lock.Unlock()
	a.send(said)
	a.took(said)
}

// took adds an answer and what follows it.
func (a *longAgent) took(said provider.Answer) {
	a.turns = append(a.turns, longTurn{role: "assistant", text: said.Text, calls: said.Calls})
	a.lock.Lock()
	defer a.lock.Unlock()
	if len(said.Calls) == 0 {
		a.asks()
	} else {
		t := longTurn{role: "user"}
		for _, c := range said.Calls {
			t.results = append(t.results, longResult{c.ID, c.Name, a.words(a.long * (100 + a.rng.IntN(300)))})
		}
		a.turns = append(a.turns, t)
	}
	if a.parties == 0 {
		a.now = a.now.Add(time.Duration(1+a.rng.IntN(20)) * time.Second)
	}
}

// send makes a call, which the provider answers so.
func (a *longAgent) send(said provider.Answer) {
	target, body := a.encode(&a.longPrompt)
	data := must.Get(json.Marshal(body))(a.t)
	c := &madeCall{agent: a, want: a.want, kept: a.kept, may: a.may}
	a.lock.Lock()
	c.start, c.failed = a.now, a.down
	a.calls = append(a.calls, c)
	if !a.down {
		a.answers = append(a.answers, said)
	}
	a.lock.Unlock()
	a.want, a.kept, a.may = nil, -1, false
	l := labels{Run: a.id, Stage: a.stage}
	ctx := llmtap.WithStage(llmtap.WithRun(a.t.Context(), a.id), a.stage)
	if a.conversation != "" && a.mode.ids {
		l.Conversation = a.id + "/" + a.conversation
		ctx = llmtap.WithConversation(ctx, l.Conversation)
	}
	ctx = context.WithValue(ctx, labelsKey{}, l)
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(data)))(a.t)
	req.Header.Set("Content-Type", "application/json")
	a.cachingDialect.key(req.Header, a.key)
	to := must.Get(url.Parse(a.server.URL))(a.t)
	resp := must.Get((&http.Client{Transport: a.hook.Transport(redirect{to})}).Do(req))(a.t)
	answer := must.Get(io.ReadAll(resp.Body))(a.t)
	must.Do(a.t, resp.Body.Close())
	if (resp.StatusCode == http.StatusOK) == c.failed {
		a.t.Errorf("%s: status %d: %s", a.id, resp.StatusCode, answer)
	}
	c.end = a.time()
	if c.failed {
		c.end = c.start.Add(time.Second)
		a.pause(3 * time.Second)
	}
}
