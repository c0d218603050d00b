package rulestest

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An Atom is what a mutation moves: a text, a call or a reply. Atoms of one message stand side by side and share it.
type Atom struct {
	message int // neighbours with the same number are one message
	role    string
	kind    atomKind
	id      string
	raw     json.RawMessage // the message (chat and items: the item), the call, or the content block
}

type atomKind int

const (
	other atomKind = iota
	call
	reply
)

type object = map[string]json.RawMessage

func text(o object, key string) string {
	var s string
	_ = json.Unmarshal(o[key], &s) // another type is no text
	return s
}

func write(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Atoms takes a history apart; false when it holds something that a mutation would have to know more of.
func Atoms(d wire.Dialect, messages json.RawMessage) ([]*Atom, bool) {
	var all []object
	if json.Unmarshal(messages, &all) != nil {
		return nil, false
	}
	var out []*Atom
	for i, m := range all {
		add := func(k atomKind, id string, raw json.RawMessage) {
			out = append(out, &Atom{message: i, role: text(m, "role"), kind: k, id: id, raw: raw})
		}
		switch d {
		case wire.OpenAIChat:
			if text(m, "role") == "tool" {
				add(reply, text(m, "tool_call_id"), write(m))
				continue
			}
			var calls []object
			_ = json.Unmarshal(m["tool_calls"], &calls) // none
			delete(m, "tool_calls")
			add(other, "", write(m))
			for _, c := range calls {
				add(call, text(c, "id"), write(c))
			}
		case wire.OpenAIResponses:
			switch text(m, "type") {
			case "function_call":
				add(call, text(m, "call_id"), write(m))
			case "function_call_output":
				add(reply, text(m, "call_id"), write(m))
			default:
				add(other, "", write(m))
			}
		default:
			var blocks []object
			if json.Unmarshal(m["content"], &blocks) != nil {
				add(other, "", m["content"])
				continue
			}
			for _, b := range blocks {
				k, id := block(d, b)
				add(k, id, write(b))
			}
			if len(blocks) == 0 {
				return nil, false
			}
		}
	}
	return out, true
}

func block(d wire.Dialect, b object) (atomKind, string) {
	words, places := &d.Descriptor().Words, &d.Descriptor().Places
	switch t := text(b, "type"); {
	case t == words.Call || b[words.Call] != nil:
		holder, key := member(b, places.CallID)
		return call, text(holder, key)
	case t == words.Reply || b[words.Reply] != nil:
		holder, key := member(b, places.ReplyID)
		return reply, text(holder, key)
	}
	return other, ""
}

// member returns the object that contains the member at a pointer, and its key.
func member(o object, pointer string) (holder object, key string) {
	outer, inner, nested := strings.Cut(pointer[1:], "/")
	if !nested {
		return o, outer
	}
	_ = json.Unmarshal(o[outer], &holder) // another type has no members
	return holder, inner
}

// set replaces the member at a pointer; false if there is no object for it.
func (a *Atom) set(pointer string, edit func(json.RawMessage) json.RawMessage) bool {
	var o object
	if json.Unmarshal(a.raw, &o) != nil {
		return false
	}
	holder, key := member(o, pointer)
	v := edit(holder[key])
	if holder == nil || v == nil {
		return false
	}
	holder[key] = v
	if outer, _, nested := strings.Cut(pointer[1:], "/"); nested {
		o[outer] = write(holder)
	}
	a.raw = write(o)
	return true
}

// Render puts atoms together again, and says in which message each of them stands.
func Render(d wire.Dialect, list []*Atom) (json.RawMessage, map[*Atom]int) {
	var all []any
	at := make(map[*Atom]int)
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].message == list[from].message && d != wire.OpenAIResponses {
			to++
		}
		for _, a := range list[from:to] {
			at[a] = len(all)
		}
		all = append(all, message(d, list[from:to]))
		from = to
	}
	return write(all), at
}

func message(d wire.Dialect, list []*Atom) any {
	switch d {
	case wire.OpenAIResponses:
		return list[0].raw
	case wire.OpenAIChat:
		if list[0].kind == reply {
			return list[0].raw
		}
		var m object
		if json.Unmarshal(list[0].raw, &m) != nil {
			panic("an assistant message without its base")
		}
		var calls []json.RawMessage
		for _, a := range list[1:] {
			calls = append(calls, a.raw)
		}
		if calls != nil {
			m["tool_calls"] = write(calls)
		} else if list[0].role == "assistant" && (m["content"] == nil || string(m["content"]) == "null") {
			m["content"] = json.RawMessage(`""`)
		}
		return m
	default:
		if len(list) == 1 && list[0].raw[0] == '"' {
			return map[string]any{"role": list[0].role, "content": list[0].raw}
		}
		blocks := make([]json.RawMessage, len(list))
		for i, a := range list {
			blocks[i] = a.raw
		}
		return map[string]any{"role": list[0].role, "content": blocks}
	}
}

// A Site is a call with its reply, in the middle of a history.
type Site struct{ call, reply int }

// Sites returns the calls whose ids are used once and answered once.
func Sites(list []*Atom) []Site {
	count := make(map[string][2]int)
	for _, a := range list {
		n := count[a.id]
		switch a.kind {
		case call:
			n[0]++
		case reply:
			n[1]++
		default:
		}
		count[a.id] = n
	}
	var out []Site
	for i, a := range list {
		if a.kind != call || a.id == "" || count[a.id] != [2]int{1, 1} {
			continue
		}
		for j := i + 1; j < len(list); j++ {
			if list[j].kind == reply && list[j].id == a.id {
				out = append(out, Site{i, j})
			}
		}
	}
	return out
}

// without is list without the atoms that drop names.
func without(list []*Atom, drop func(i int, a *Atom) bool) []*Atom {
	var out []*Atom
	for i, a := range list {
		if !drop(i, a) {
			out = append(out, a)
		}
	}
	return out
}

// change returns list with a changed copy of its atom i.
func change(list []*Atom, i int, edit func(*Atom)) ([]*Atom, *Atom) {
	a := *list[i]
	edit(&a)
	list = slices.Clone(list)
	list[i] = &a
	return list, &a
}

// rename gives a call or a reply another id.
func rename(d wire.Dialect, a *Atom, id string) {
	pointer := d.Descriptor().Places.CallID
	if a.kind == reply {
		pointer = d.Descriptor().Places.ReplyID
	}
	if !a.set(pointer, func(json.RawMessage) json.RawMessage { return write(id) }) {
		panic("a call or reply that is no object")
	}
	a.id = id
}

// arguments replaces the arguments of a call by what edit makes of them; false if it has none to edit.
func arguments(d wire.Dialect, a *Atom, edit func(json.RawMessage) json.RawMessage) bool {
	return a.set(d.Descriptor().Places.Arguments, func(raw json.RawMessage) json.RawMessage {
		if raw == nil {
			return nil
		}
		return edit(raw)
	})
}

// user is a message that somebody puts in.
func user(d wire.Dialect) *Atom {
	a := &Atom{message: -1, role: "user", raw: write(said(d, "user", "Are you there?"))}
	if d.Descriptor().Pairing.Blocks {
		a.raw = part(d, "Are you there?")
	}
	return a
}

func part(d wire.Dialect, text string) json.RawMessage {
	return json.RawMessage(strings.Replace(d.Descriptor().Texts.Part, "$text", string(write(text)), 1))
}
