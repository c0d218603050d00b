package promptcaching

import (
	"encoding/json"
	"time"
)

// What DeepSeek documents, and the interval, which it does not.
const (
	deepSeekUnit     = 64
	deepSeekInterval = 4096 / deepSeekUnit // in units
	deepSeekHeld     = 24 * time.Hour
)

// DeepSeek looks up a request in Chat Completions.
func (c *Cache) DeepSeek(r Request) *Call {
	o := decode(r.Body)
	var p prompt
	for _, t := range list(o["tools"]) {
		p.add(compact(t))
	}
	p.add(chat(o)...)
	root := key(0).with("deepseek").with(c.owner(r.Key)).with(r.Model)
	prefixes := p.prefixes(root, deepSeekUnit)

	c.mu.Lock()
	defer c.mu.Unlock()
	call := &Call{cache: c, Usage: Usage{Prompt: p.length}}
	var held []key
	n, seen := 0, 0 // units to be read, and units that an earlier request began with
	for i, k := range prefixes {
		if c.holds(k) {
			held = append(held, k)
		}
		if c.holds(k.with("seen")) {
			seen = i + 1
		}
	}
	c.lose(held)
	for i, k := range prefixes {
		if c.holds(k) {
			n = i + 1
			c.renew(k)
		}
	}
	call.Read = n * deepSeekUnit
	keep := func(p []key, units int) {
		for i, k := range p {
			call.writes = append(call.writes, write{k.with("seen"), deepSeekHeld})
			if i+1 == units || i+1 == len(p) || (i+1)%deepSeekInterval == 0 {
				call.writes = append(call.writes, write{k, deepSeekHeld})
			}
		}
	}
	keep(prefixes, seen)
	call.output = func(answer any) {
		raw, err := json.Marshal(answer)
		if err != nil {
			return // it cannot be sent either
		}
		whole := p
		whole.pieces = append([]string(nil), p.pieces...)
		whole.add(message(raw)...)
		call.writes = nil
		keep(whole.prefixes(root, deepSeekUnit), 0)
		for _, w := range call.writes {
			c.put(w.key, w.ttl)
		}
	}
	return call
}
