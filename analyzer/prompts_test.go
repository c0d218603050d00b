package analyzer_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A cached is an agent whose provider has a prompt cache, in one dialect. Its answers say what the script wants them to say.
type cached struct {
	*stream
	d       *cacheDialect
	capture string
	model   string
	system  string
	tools   []msg
	account string
	params  msg
	history []string // "u text" or "a text"
	marks   []int    // messages with a mark, as Anthropic wants it; -1 is the system prompt
	fixed   []int    // these instead of the newest message
	last    int      // input tokens of the newest call
	held    int      // of these, those in the cache
	talks   int
	image   bool
}

type cacheDialect struct {
	name, url, model string
	unit             int
	body             func(c *cached) msg
	answer           func(text string, input, read, written int) msg
}

const (
	hit  = -1 // all that the provider may hold
	miss = 0
)

var cacheDialects = []*cacheDialect{
	{"chat", openAIURL, "gpt-5.2", 128, chatPrompt, func(text string, input, read, _ int) msg {
		return msg{
			"id": "r", "model": "m", "choices": []msg{{"index": 0, "message": assistant(text), "finish_reason": "stop"}},
			"usage": msg{"prompt_tokens": input, "completion_tokens": 7, "prompt_tokens_details": msg{"cached_tokens": read}},
		}
	}},
	{"responses", responsesURL, "gpt-5.2", 128, func(c *cached) msg {
		var tools []msg
		for _, t := range c.tools {
			f := t["function"].(msg)
			tools = append(tools, msg{"type": "function", "name": f["name"], "description": f["description"], "parameters": f["parameters"]})
		}
		return msg{"model": c.model, "instructions": c.system, "tools": tools, "input": c.messages("assistant", "content")}
	}, func(text string, input, read, _ int) msg {
		return msg{
			"id": "r", "model": "m", "status": "completed", "output": []msg{{"type": "message", "role": "assistant", "content": []msg{{"type": "output_text", "text": text}}}},
			"usage": msg{"input_tokens": input, "output_tokens": 7, "input_tokens_details": msg{"cached_tokens": read}},
		}
	}},
	{"anthropic", "https://api.anthropic.com/v1/messages", "claude-sonnet-4-5", 1, func(c *cached) msg {
		mark := msg{"type": "ephemeral"}
		list := c.messages("assistant", "content")
		for i, m := range list {
			part := msg{"type": "text", "text": m["content"]}
			if slices.Contains(c.marks, i) {
				part["cache_control"] = mark
			}
			m["content"] = []msg{part}
			if c.image && i == len(list)-1 {
				m["content"] = []msg{{"type": "image", "source": msg{"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}, part}
			}
		}
		part := msg{"type": "text", "text": c.system}
		if slices.Contains(c.marks, -1) {
			part["cache_control"] = mark
		}
		var tools []msg
		for _, t := range c.tools {
			f := t["function"].(msg)
			tools = append(tools, msg{"name": f["name"], "description": f["description"], "input_schema": f["parameters"]})
		}
		return msg{"model": c.model, "max_tokens": 1000, "system": []msg{part}, "tools": tools, "messages": list}
	}, func(text string, input, read, written int) msg {
		return msg{
			"id": "r", "type": "message", "model": "m", "role": "assistant", "content": []msg{{"type": "text", "text": text}}, "stop_reason": "end_turn",
			"usage": msg{"input_tokens": input - read - written, "output_tokens": 7, "cache_read_input_tokens": read, "cache_creation_input_tokens": written},
		}
	}},
	{"gemini", "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent", "", 2048, func(c *cached) msg {
		list := c.messages("model", "parts")
		for _, m := range list {
			m["parts"] = []msg{{"text": m["parts"]}}
		}
		var tools []msg
		for _, t := range c.tools {
			tools = append(tools, t["function"].(msg))
		}
		return msg{"systemInstruction": msg{"parts": []msg{{"text": c.system}}}, "tools": []msg{{"functionDeclarations": tools}}, "contents": list}
	}, func(text string, input, read, _ int) msg {
		u := msg{"promptTokenCount": input, "candidatesTokenCount": 7}
		if read > 0 {
			u["cachedContentTokenCount"] = read
		}
		return msg{"candidates": []msg{{"content": msg{"role": "model", "parts": []msg{{"text": text}}}, "finishReason": "STOP"}}, "usageMetadata": u}
	}},
	{"deepseek", deepSeekURL, "deepseek-chat", 64, chatPrompt, func(text string, input, read, _ int) msg {
		return msg{
			"id": "r", "model": "m", "choices": []msg{{"index": 0, "message": assistant(text), "finish_reason": "stop"}},
			"usage": msg{"prompt_tokens": input, "completion_tokens": 7, "prompt_cache_hit_tokens": read, "prompt_cache_miss_tokens": input - read},
		}
	}},
}

func chatPrompt(c *cached) msg {
	return msg{"model": c.model, "tools": c.tools, "messages": append([]msg{system(c.system)}, c.messages("assistant", "content")...)}
}

// messages returns the history as messages whose text is the member content.
func (c *cached) messages(assistant, content string) (list []msg) {
	for _, m := range c.history {
		role := "user"
		if m[0] == 'a' {
			role = assistant
		}
		list = append(list, msg{"role": role, content: m[2:]})
	}
	return list
}

// words returns about n tokens that begin with a text.
func words(first string, n int) string {
	return first + strings.Repeat(" word", n)
}

func cacheTool(name string) msg {
	return msg{"type": "function", "function": msg{"name": name, "description": words("It does "+name, 200), "parameters": msg{"type": "object", "properties": msg{}}}}
}

func newCached(d *cacheDialect) *cached {
	c := &cached{
		stream: newStream(""), d: d, capture: event.CaptureFull, model: d.model, system: words("You are careful.", 6000),
		tools: []msg{cacheTool("read"), cacheTool("write"), cacheTool("search")}, params: msg{}, marks: []int{-1},
	}
	c.talk()
	return c
}

// talk begins a conversation.
func (c *cached) talk() {
	c.talks++
	c.labels.Conversation, c.history, c.last, c.held = fmt.Sprintf("talk %d", c.talks), nil, 0, 0
}

func (c *cached) request(id string) *event.Event {
	b := c.d.body(c)
	maps.Copy(b, c.params)
	return c.add(&event.Event{Kind: event.Request, Exchange: id, URL: c.d.url, Method: "POST", Body: body(b), Capture: c.capture, Account: c.account})
}

// turn adds a message of the user and a call, of which read tokens come from the cache.
func (c *cached) turn(text string, read int) {
	c.history = append(c.history, "u "+text)
	c.call(read)
	c.history = append(c.history, fmt.Sprintf("a answer %d, which is long enough to be recognized", c.calls))
}

// call makes a call with the history.
func (c *cached) call(read int) {
	if c.marks != nil {
		if c.marks = []int{-1, len(c.history) - 1}; c.fixed != nil {
			c.marks = c.fixed
		}
	}
	id := c.exchange()
	c.answered(id, len(c.request(id).Body)/5, read)
}

func (c *cached) answered(id string, input, read int) {
	if read == hit {
		if read = c.held - c.held%c.d.unit; c.d.name == "gemini" || c.d.name == "chat" || c.d.name == "responses" {
			read = (c.held - 8) / c.d.unit * c.d.unit
		}
	}
	written := input - read
	if c.marks == nil {
		written = 0
	}
	answer := c.d.answer(fmt.Sprintf("answer %d, which is long enough to be recognized", c.calls), input, read, written)
	c.response(id, 200, body(answer))
	c.last, c.held = input, input
	if c.d.name == "anthropic" {
		c.held = read + written
	}
}

// verdicts returns what became of the cache in each call, as "reason element detail confidence", without the calls in which nothing was missed.
func (c *cached) verdicts(t *testing.T) (list []string) {
	t.Helper()
	c.advance(10 * time.Second)
	for _, e := range run(t, analyzer.Default(), c.steps).Exchanges {
		v := e.Cache
		if v.Missed > v.Reusable || v.Reusable > e.InputTokens || (v.Missed > 0) != (v.Reason != "") || v.Reason != "" && v.Confidence == "" {
			t.Errorf("%s: %+v of %d tokens", c.d.name, v, e.InputTokens)
		}
		if v.Reason != "" {
			list = append(list, strings.TrimSpace(strings.Join([]string{v.Reason, v.Element, v.Detail}, " ")))
		}
	}
	return list
}

// first is the index of the first message after the system prompt.
func (c *cached) first() int {
	if c.d.name == "chat" || c.d.name == "deepseek" {
		return 1
	}
	return 0
}

// Each change that breaks the prefix is named, in each dialect.
func TestCacheBroken(t *testing.T) { testCaches(t, slices.Concat(brokenCaches, fullCaches)) }

func TestCacheHealthy(t *testing.T) { testCaches(t, healthyCaches) }

func testCaches(t *testing.T, scripts []cacheScript) {
	t.Helper()
	for _, x := range scripts {
		for _, d := range cacheDialects {
			if x.dialects != "" && !strings.Contains(x.dialects, d.name) {
				continue
			}
			c := newCached(d)
			x.script(c)
			want := strings.ReplaceAll(strings.Join(x.want, ", "), "#", fmt.Sprint(c.first()))
			must.Equal(t, strings.Join(c.verdicts(t), ", "), want, "%s, %s", x.name, d.name)
		}
	}
}

// In shapes, what changed is named too, if the hashes of texts or their lengths show it.
func TestCacheShapes(t *testing.T) {
	shaper := shape.New([]byte("key"))
	for _, x := range brokenCaches {
		for _, d := range cacheDialects {
			if x.dialects != "" && !strings.Contains(x.dialects, d.name) {
				continue
			}
			c := newCached(d)
			x.script(c)
			want := strings.ReplaceAll(strings.Join(c.verdicts(t), ", "), " time", "") // its text is unknown
			for _, st := range c.steps {
				if ev := st.ev; ev != nil {
					dialect := facts.Detect(d.url, "", nil).Dialect
					if ev.Capture = event.CaptureShape; ev.Kind == event.Request {
						ev.Body = slices.Clone(shaper.Request(dialect, ev.Body, 1<<20))
					} else {
						ev.Body = slices.Clone(shaper.Response(dialect, ev.Body, 1<<20))
					}
					ev.BodyBytes = len(ev.Body)
				}
			}
			must.Equal(t, strings.Join(c.verdicts(t), ", "), want, "%s, %s", x.name, d.name)
		}
	}
}

// A process that dies after any event, and another one that continues, tell the same of the cache.
func TestCacheReplay(t *testing.T) {
	slowtest.Skip(t)
	for i, x := range slices.Concat(brokenCaches, healthyCaches) {
		d := cacheDialects[i%len(cacheDialects)]
		if x.dialects != "" && !strings.Contains(x.dialects, d.name) {
			d = cacheDialects[slices.IndexFunc(cacheDialects, func(d *cacheDialect) bool { return strings.Contains(x.dialects, d.name) })]
		}
		c := newCached(d)
		x.script(c)
		c.advance(10 * time.Second)
		whole := run(t, analyzer.Default(), c.steps)
		for k := 1; k < len(c.steps); k++ {
			if !sameOutput(t, whole, restarted(t, c.steps, k)) {
				t.Fatalf("%s, %s: stopped after %d events", x.name, d.name, k)
			}
		}
	}
}

// A break is counted in each call, and told once, with the version that began it.
func TestCacheSignal(t *testing.T) {
	c := newCached(cacheDialects[0])
	for range 3 {
		c.talk()
		three(c)
	}
	c.labels.ServiceVersion = "2.5.0"
	c.talk()
	for i := range 4 {
		c.system = words(fmt.Sprintf("It is %d:00.", 10+i), 6000)
		c.turn("one", miss)
	}
	c.advance(10 * time.Second)
	out := run(t, analyzer.Default(), c.steps)
	var told []analyzer.Finding
	for _, f := range out.Findings {
		if f.Rule == signals.CacheBroken {
			told = append(told, f)
		}
	}
	must.Equal(t, len(told), 1, "findings")
	f := told[0]
	must.Equal(t, f.Summary, "the system prompt changed: it contains the time", "summary")
	must.Equal(t, f.Evidence, "6,656 of 6,656 reusable tokens were not read from the cache, in a call with 6,721 input tokens; the first difference is in system", "evidence")
	if f.Fix == "" || f.Detail != promptcache.SystemChanged || f.FirstVersion != "2.5.0" || f.LastClean != "1.4.0" || f.CleanCalls == 0 {
		t.Errorf("finding %+v", f)
	}
	got := map[string]uint64{}
	var examples []string
	for _, y := range out.Tallies {
		for _, n := range y.Counts {
			if strings.Contains(n.Metric, "_cache_") {
				got[n.Metric+" "+n.Labels["service_version"]+" "+n.Labels["reason"]] += n.N
			}
		}
		for _, x := range y.Examples {
			if x.Labels["reason"] != "" {
				examples = append(examples, x.Labels["reason"]+", "+x.Summary+", "+x.FirstVersion)
			}
		}
	}
	want := map[string]uint64{
		"llmtap_cache_broken_calls_total 2.5.0 system_changed":        3,
		"llmtap_cache_missed_microdollars_total 1.4.0 evicted":        20966, // the second and third conversation begin with the prompt of the first
		"llmtap_cache_missed_microdollars_total 2.5.0 system_changed": 31449,
		"llmtap_cache_missed_tokens_total 1.4.0 evicted":              13312,
		"llmtap_cache_missed_tokens_total 2.5.0 system_changed":       19968,
		"llmtap_cache_reusable_tokens_total 1.4.0 ":                   53248,
		"llmtap_cache_reusable_tokens_total 2.5.0 ":                   19968,
	}
	must.Agree(t, cmp.Diff(want, got))
	must.Equal(t, strings.Join(slices.Compact(examples), "; "), "system_changed, the system prompt changed: it contains the time, 2.5.0", "examples")
}
