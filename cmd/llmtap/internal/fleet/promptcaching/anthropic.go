package promptcaching

import (
	"encoding/json"
	"strings"
	"time"
)

// What Anthropic documents.
const (
	anthropicMarks    = 4
	anthropicLookback = 20 // blocks from a mark, itself included
)

// anthropicMinimums are the fewest tokens that are cached, by the beginning of a model's name; 1024 for others.
var anthropicMinimums = []struct {
	model  string
	tokens int
}{
	{"claude-opus-5", 512},
	{"claude-opus-4-8", 1024},
	{"claude-opus-4-7", 4096},
	{"claude-opus-4-6", 4096},
	{"claude-opus-4-5", 4096},
	{"claude-haiku-4-5", 4096},
	{"claude-3-5-haiku", 2048},
	{"claude-3-haiku", 2048},
}

// A section is a part of the prompt with a cache of its own.
type section int

const (
	tools section = iota
	system
	messages
)

// A block is a tool, a part of the system prompt or a part of a message.
type block struct {
	section section
	text    string
	mark    time.Duration // 0: none
	end     int           // tokens of the prefix that ends with it
	key     key           // of that prefix
}

// Anthropic looks up a request for a message.
func (c *Cache) Anthropic(r Request) *Call {
	o := decode(r.Body)
	blocks := anthropicBlocks(o)
	k, at, length := key(0).with("anthropic").with(c.owner(r.Key)).with(r.Model), tools, 0
	for i := range blocks {
		b := &blocks[i]
		for at < b.section {
			at++
			k = k.with(anthropicParameters(o, at, blocks))
		}
		k = k.with(b.text)
		length += tokens(b.text)
		b.key, b.end = k, length
	}
	minimum := 1024
	for _, m := range anthropicMinimums {
		if strings.HasPrefix(r.Model, m.model) {
			minimum = m.tokens
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marked(blocks, length, minimum)
}

// marked looks up a prompt that is cached up to its marks.
func (c *Cache) marked(blocks []block, length, minimum int) *Call {
	call := &Call{cache: c, Usage: Usage{Prompt: length}}
	var marks []int
	for i := range blocks {
		if blocks[i].mark > 0 && blocks[i].end >= minimum && len(marks) < anthropicMarks {
			marks = append(marks, i)
		}
	}
	var held []key
	for i := range blocks {
		if c.holds(blocks[i].key) {
			held = append(held, blocks[i].key)
		}
	}
	c.lose(held)
	for _, i := range marks {
		for j := i; j >= 0 && j > i-anthropicLookback; j-- {
			if c.holds(blocks[j].key) {
				call.Read = max(call.Read, blocks[j].end)
				break
			}
		}
	}
	for i := range blocks {
		if blocks[i].end <= call.Read {
			c.renew(blocks[i].key)
		}
	}
	written := call.Read
	for _, i := range marks {
		b := &blocks[i]
		if n := b.end - written; n > 0 {
			call.Written += n
			written = b.end
		}
		if b.mark == time.Hour {
			call.Hour = call.Written
		}
		call.writes = append(call.writes, write{b.key, b.mark})
	}
	return call
}

// anthropicBlocks returns the blocks of a request in their order.
func anthropicBlocks(o object) []block {
	var out []block
	add := func(s section, text string, control json.RawMessage) {
		out = append(out, block{section: s, text: text, mark: lifetime(control)})
	}
	content := func(s section, role string, raw json.RawMessage) {
		if whole := text(raw); whole != "" {
			add(s, role+whole, nil)
			return
		}
		for _, b := range list(raw) {
			rendered := text(decode(b)["text"])
			if rendered == "" {
				rendered = but(b, "cache_control")
			}
			add(s, role+rendered, decode(b)["cache_control"])
		}
	}
	for _, t := range list(o["tools"]) {
		add(tools, but(t, "cache_control"), decode(t)["cache_control"])
	}
	content(system, "", o["system"])
	for _, raw := range list(o["messages"]) {
		m := decode(raw)
		content(messages, text(m["role"])+":", m["content"])
	}
	if ttl := lifetime(o["cache_control"]); ttl > 0 && len(out) > 0 {
		out[len(out)-1].mark = ttl
	}
	return out
}

// lifetime returns for how long a mark holds what is before it; 0 for none.
func lifetime(control json.RawMessage) time.Duration {
	mark := decode(control)
	switch {
	case text(mark["type"]) != "ephemeral":
		return 0
	case text(mark["ttl"]) == "1h":
		return time.Hour
	}
	return 5 * time.Minute
}

// anthropicParameters returns the parameters that are part of a section.
func anthropicParameters(o object, s section, blocks []block) string {
	if s == system {
		return compact(decode(o["output_config"])["format"]) + compact(o["output_format"])
	}
	images := ""
	for i := range blocks {
		if blocks[i].section == messages && strings.Contains(blocks[i].text, `type:"image"`) {
			images = "images"
		}
	}
	return compact(o["tool_choice"]) + compact(o["thinking"]) + images
}
