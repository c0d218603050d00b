package promptcaching

import (
	"encoding/json"
	"time"
)

// What OpenAI documents.
const (
	openAIMinimum = 1024
	openAIStep    = 128
	openAIRouted  = 256 // tokens that a request is routed by
	openAIRate    = 15  // requests a minute to one machine
)

// OpenAI looks up a request in Chat Completions or Responses.
func (c *Cache) OpenAI(r Request) *Call {
	o := decode(r.Body)
	var p prompt
	for _, t := range list(o["tools"]) {
		p.add(compact(t))
	}
	p.add(schemas(o)...)
	for _, m := range chat(o) {
		p.add(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ttl := c.fewMinutes()
	if text(o["prompt_cache_retention"]) == "24h" {
		ttl = 24 * time.Hour
	}
	effort := text(o["reasoning_effort"]) + text(decode(o["reasoning"])["effort"])
	machine := c.route(key(0).with("openai").with(c.owner(r.Key)).with(r.Model).with(effort), &p, text(o["prompt_cache_key"]))
	return c.implicit(machine, &p, openAIMinimum, openAIStep, ttl)
}

// schemas returns the schema of the response format.
func schemas(o object) []string {
	for _, format := range []json.RawMessage{o["response_format"], decode(o["text"])["format"]} {
		if text(decode(format)["type"]) == "json_schema" {
			return []string{compact(format)}
		}
	}
	return nil
}

// chat returns the rendered messages of a request in Chat Completions or Responses.
func chat(o object) []string {
	var out []string
	if s := text(o["instructions"]); s != "" {
		out = append(out, "developer", s)
	}
	if s := text(o["input"]); s != "" {
		return append(out, "user", s)
	}
	messages := list(o["messages"])
	if messages == nil {
		messages = list(o["input"])
	}
	for _, m := range messages {
		out = append(out, message(m)...)
	}
	return out
}

// message returns a message, or an item of Responses, in the form in which it is rendered both in a request and in an answer.
func message(raw json.RawMessage) []string {
	m := decode(raw)
	out := append([]string{text(m["role"]) + text(m["type"])}, parts(m["content"])...)
	if s := text(m["reasoning_content"]); s != "" {
		out = append(out, s)
	}
	for _, call := range list(m["tool_calls"]) {
		f := decode(decode(call)["function"])
		out = append(out, text(f["name"])+text(f["arguments"]))
	}
	if s := text(m["name"]) + text(m["arguments"]) + text(m["output"]); s != "" {
		out = append(out, s)
	}
	return out
}

// route returns the key of the machine that gets a request.
func (c *Cache) route(k key, p *prompt, cacheKey string) key {
	where := k.with(cacheKey)
	if first := p.prefixes(k, openAIRouted); len(first) > 0 {
		where = where.with(first[0].String())
	}
	now := c.now()
	var recent []time.Time
	for _, at := range c.recent[where] {
		if now.Sub(at) < time.Minute {
			recent = append(recent, at)
		}
	}
	c.recent[where] = append(recent, now)
	machine := c.rng.IntN(1 + len(recent)/openAIRate)
	return where.with(string(rune('0' + machine)))
}

// implicit looks up a prompt of which every prefix is cached, in steps from a minimum on.
func (c *Cache) implicit(k key, p *prompt, minimum, step int, ttl time.Duration) *Call {
	call := &Call{cache: c, Usage: Usage{Prompt: p.length}}
	if p.length < minimum {
		return call
	}
	prefixes := p.prefixes(k, step)
	c.lose(prefixes[:c.longest(prefixes)])
	n := c.longest(prefixes)
	if n*step >= minimum {
		call.Read = n * step
		for _, k := range prefixes[:n] {
			c.renew(k)
		}
	}
	for _, k := range prefixes[n:] {
		call.writes = append(call.writes, write{k, ttl})
	}
	return call
}
