package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func three(c *cached) {
	c.turn("one", miss)
	c.turn("two", hit)
	c.turn("three", hit)
}

// A cacheScript is what an agent does, in some dialects ("" are all), and what becomes of the cache.
type cacheScript struct {
	name, dialects string
	script         func(c *cached)
	want           []string // # is the first message after the system prompt
}

// fullCaches are broken in a way that only texts show.
var fullCaches = []cacheScript{
	{"a short system prompt for each conversation, behind many tools", "chat responses deepseek", func(c *cached) {
		for i := range 27 {
			c.tools = append(c.tools, cacheTool(fmt.Sprint("t", i)))
		}
		for i := range 6 {
			c.talk()
			c.system = words(fmt.Sprintf("The user is number %d.", i), 1500)
			c.turn("one", len(body(c.tools))/5/c.d.unit*c.d.unit)
		}
	}, []string{"varies system", "varies system", "varies system"}},
}

var brokenCaches = []cacheScript{
	{"the time in the system prompt", "", func(c *cached) {
		for i := range 3 {
			c.system = words(fmt.Sprintf("It is %d:00.", 10+i), 6000)
			c.turn("one", miss)
		}
	}, []string{"system_changed system time", "system_changed system time"}},
	{"another version goes on, with another prompt and then with the time", "", func(c *cached) {
		three(c)
		c.labels.ServiceVersion, c.system = "2.0.0", words("You are very careful.", 6000)
		c.turn("four", miss)
		c.system = words("It is 10:00.", 6000)
		c.turn("five", miss)
	}, []string{"version_changed system", "system_changed system"}},
	{"another account", "chat responses anthropic gemini", func(c *cached) {
		c.account = "a"
		three(c)
		c.account = "b"
		c.turn("four", miss)
		c.turn("five", hit)
	}, []string{"account_changed"}},
	{"an unknown account, and then another one", "chat responses anthropic gemini", func(c *cached) {
		c.account = "a"
		three(c)
		c.account = ""
		c.turn("four", miss)
		c.account = "b"
		c.turn("five", miss)
	}, []string{"evicted", "evicted"}},
	{"keys of one account, and then an eviction", "chat responses anthropic gemini", func(c *cached) {
		c.account = "a"
		three(c)
		c.account = "b"
		c.turn("four", hit)
		c.account = "a"
		c.turn("five", miss)
	}, []string{"evicted"}},
	{"tools in another order", "", func(c *cached) {
		three(c)
		c.tools[0], c.tools[1] = c.tools[1], c.tools[0]
		c.turn("four", miss)
		c.turn("five", hit)
	}, []string{"tools_reordered tools[0] write"}},
	{"a tool was added", "", func(c *cached) {
		three(c)
		c.tools = append(c.tools, cacheTool("new"))
		c.turn("four", miss)
		c.turn("five", hit)
	}, []string{"tools_changed tools[3] new"}},
	{"a tool was removed", "", func(c *cached) {
		three(c)
		c.tools = c.tools[1:]
		c.turn("four", miss)
	}, []string{"tools_changed tools[0] read"}},
	{"a tool was described otherwise", "", func(c *cached) {
		three(c)
		c.tools[1] = cacheTool("write")
		c.tools[1]["function"].(msg)["description"] = words("It is new", 190)
		c.turn("four", miss)
	}, []string{"tools_changed tools[1] write"}},
	{"an old message was edited", "", func(c *cached) {
		c.turn(words("one", 3000), miss)
		c.turn("two", hit)
		c.turn("three", hit)
		c.history[0] = words("u eins", 3000)
		c.turn("four", miss)
		c.turn("five", hit)
	}, []string{"message_edited messages[#]"}},
	{"compacted", "", func(c *cached) {
		for i := range 4 {
			c.turn(words(fmt.Sprint(i), 2000), -min(i, 1))
		}
		c.history = slices.Concat([]string{"u summary"}, c.history[3:])
		c.turn("five", miss)
	}, []string{"history_compacted messages[#]"}},
	{"idle", "chat responses anthropic", func(c *cached) {
		three(c)
		c.now = c.now.Add(20 * time.Minute)
		c.turn("four", miss)
	}, []string{"idle"}},
	{"forgotten", "", func(c *cached) {
		three(c)
		c.now = c.now.Add(40 * time.Minute)
		c.turn("four", miss)
	}, []string{"idle"}},
	{"replaced by a summary", "", func(c *cached) {
		for i := range 4 {
			c.turn(words(fmt.Sprint(i), 2000), -min(i, 1))
		}
		c.history = []string{"u " + words("what happened", 3000), "a I know."}
		c.turn("five", c.begun())
	}, []string{"history_compacted messages[#]"}},
	{"the first image", "anthropic", func(c *cached) {
		c.turn(words("one", 3000), miss)
		c.turn("two", hit)
		c.image = true
		c.turn("three", 8000)
	}, []string{"parameter_changed images"}},
	{"equal first calls at the same time", "deepseek", func(c *cached) {
		c.history = []string{"u one"}
		a := c.exchange()
		q := c.request(a)
		c.talk()
		c.history = []string{"u one"}
		b := c.exchange()
		c.request(b)
		c.answered(a, len(q.Body)/5, miss)
		c.answered(b, len(q.Body)/5, miss)
	}, []string{"parallel"}},
	{"evicted", "", func(c *cached) {
		three(c)
		c.now = c.now.Add(time.Minute)
		c.turn("four", miss)
	}, []string{"evicted"}},
	{"another model", "chat responses anthropic deepseek", func(c *cached) {
		three(c)
		c.model = map[string]string{"chat": "gpt-5.4", "responses": "gpt-5.4", "anthropic": "claude-opus-4-1", "deepseek": "deepseek-reasoner"}[c.d.name]
		c.turn("four", miss)
	}, []string{"model_switched model"}},
	{"nothing is marked", "anthropic", func(c *cached) {
		c.marks = nil
		c.turn("one", miss)
		c.turn("two", miss)
	}, []string{"mark_missing"}},
	{"another effort", "chat", func(c *cached) {
		three(c)
		c.params["reasoning_effort"] = "high"
		c.turn("four", miss)
	}, []string{"parameter_changed reasoning_effort"}},
	{"the newest message is no longer marked", "anthropic", func(c *cached) {
		for i := range 3 {
			c.turn(words("one", 2000), -min(i, 1))
		}
		c.fixed = []int{-1}
		c.turn("four", 6000)
	}, []string{"mark_moved"}},
	{"more blocks than the provider looks back", "anthropic", func(c *cached) {
		c.turn("one", miss)
		c.fixed = []int{}
		for range 12 {
			c.history = append(c.history, words("u more", 50), "a fine, which is long enough to be recognized by all")
		}
		c.fixed = nil
		c.turn("two", miss)
	}, []string{"beyond_lookback"}},
	{"another prompt_cache_key", "chat responses", func(c *cached) {
		c.params["prompt_cache_key"] = "a"
		three(c)
		c.params["prompt_cache_key"] = "b"
		c.turn("four", miss)
	}, []string{"parameter_changed prompt_cache_key"}},
	{"many calls without prompt_cache_key", "chat responses", func(c *cached) {
		for i := range 20 {
			c.talk()
			c.now = c.now.Add(-1500 * time.Millisecond)
			c.turn("one", c.begun()*min(i, 1)*min(20-1-i, 1))
		}
	}, []string{"routing_missing prompt_cache_key"}},
	{"many calls without prompt_cache_key, when a generation of stages ends", "chat responses", func(c *cached) {
		c.now = c.now.Truncate(time.Hour).Add(time.Hour - 9*time.Second)
		for i := range 20 {
			c.talk()
			c.now = c.now.Add(-1500 * time.Millisecond)
			c.turn("one", c.begun()*min(i, 1)*min(20-1-i, 1))
		}
	}, []string{"routing_missing prompt_cache_key"}},
	{"too short for the provider", "chat responses", func(c *cached) {
		c.system, c.tools = words("You are careful.", 200), c.tools[:1]
		c.turn("one", miss)
		c.turn("two", miss)
	}, []string{"too_short"}},
	{"a system prompt for each conversation", "", func(c *cached) {
		for i := range 6 {
			c.talk()
			c.system = words(fmt.Sprintf("The user is number %d.", i), 6000)
			c.turn("one", miss)
		}
	}, []string{"varies system", "varies system", "varies system"}},
	{"tools in another order in each conversation", "chat responses anthropic gemini", func(c *cached) {
		for i := range 6 {
			c.talk()
			c.tools = append(c.tools, cacheTool(fmt.Sprint("t", i)))
			slices.Reverse(c.tools)
			c.turn("one", miss)
		}
	}, []string{"varies tools[0] t3", "varies tools[0] t4", "varies tools[0] t5"}},
	{"first calls at the same time", "chat responses anthropic gemini", func(c *cached) {
		c.talk()
		c.history = []string{"u one"}
		a := c.exchange()
		qa := c.request(a)
		c.talk()
		c.history = []string{"u two"}
		b := c.exchange()
		qb := c.request(b)
		c.answered(a, len(qa.Body)/5, miss)
		c.answered(b, len(qb.Body)/5, miss)
	}, []string{"parallel"}},
}

// Agents that do nothing wrong, some of which look as if they did: nothing is told.
var healthyCaches = []cacheScript{
	{name: "a conversation", script: three},
	{name: "an answer that is asked for again", script: func(c *cached) {
		three(c)
		c.history = c.history[:len(c.history)-1]
		c.call(hit)
	}},
	{name: "another branch", script: func(c *cached) {
		three(c)
		c.history = c.history[:2]
		c.last, c.held = 0, 0
		c.turn("another two", c.begun())
	}},
	{name: "a failed call", script: func(c *cached) {
		c.turn("one", miss)
		c.history = append(c.history, "u two")
		id := c.exchange()
		c.request(id)
		c.response(id, 500, fault("Internal error"))
		c.call(hit)
	}},
	{name: "a retry of the SDK", script: func(c *cached) {
		c.turn("one", miss)
		c.history = append(c.history, "u two")
		c.request(c.exchange())
		id := c.exchange()
		q := c.request(id)
		q.Retry = 1
		c.answered(id, len(q.Body)/5, hit)
		c.history = append(c.history, "a fine, which is long enough to be recognized by all")
		c.turn("three", hit)
	}},
	{name: "a sub-agent", script: func(c *cached) {
		three(c)
		own := *c
		c.system, c.history, c.tools = words("You look for files.", 5000), nil, c.tools[:1]
		c.turn("find it", miss)
		c.turn("find more", hit)
		c.system, c.history, c.tools, c.last, c.held = own.system, own.history, own.tools, own.last, own.held
		c.turn("four", hit)
	}},
	{name: "another agent with the same question", script: func(c *cached) {
		three(c)
		c.system, c.history, c.held = words("You are fast.", 6000), nil, 0
		c.turn("one", miss)
	}},
	{name: "a resumed conversation", script: func(c *cached) {
		three(c)
		c.labels.Conversation = "another id"
		c.turn("four", hit)
	}},
	{name: "a short prompt", script: func(c *cached) {
		c.system, c.tools = "You are careful.", c.tools[:0]
		c.turn("one", miss)
	}},
	{name: "conversations of one prompt", script: func(c *cached) {
		for i := range 6 {
			c.talk()
			read := c.begun()
			if i == 0 {
				read = miss
			}
			c.turn("one", read)
		}
	}},
	{name: "two prompts in one stage", script: func(c *cached) {
		one, two := c.system, words("You are fast.", 6000)
		for i := range 8 {
			c.talk()
			if c.system = one; i%2 > 0 {
				c.system = two
			}
			read := c.begun()
			if i < 2 {
				read = miss
			}
			c.turn("one", read)
		}
	}},
	{name: "conversations that share little", script: func(c *cached) {
		c.tools = nil
		for i := range 6 {
			c.talk()
			c.system = words(fmt.Sprintf("Document %d", i), 50) + strings.Repeat(fmt.Sprint(i), 20000)
			c.turn("one", miss)
		}
	}},
	{name: "another message at the end of each call", script: func(c *cached) {
		for i := range 4 {
			c.history = append(c.history, "u "+words(fmt.Sprintf("The files at %d:00", i), 10))
			c.call(-min(i, 1))
			c.history[len(c.history)-1] = fmt.Sprintf("u go on %d", i)
			c.history = append(c.history, fmt.Sprintf("a answer %d, which is long enough to be recognized", c.calls))
			c.held -= 400
		}
	}},
}

// begun returns the tokens of the tools and the system prompt, as far as a provider reads them of another conversation.
func (c *cached) begun() int {
	n := (len(c.system) + len(body(c.tools))) / 5
	if c.d.name == "deepseek" {
		return 0
	}
	return n / c.d.unit * c.d.unit
}
