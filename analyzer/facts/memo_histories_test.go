package facts

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// memoDialects are the dialects of the tests, Cohere, whose requests are like those of chat completions, and the Interactions API.
var memoDialects = append([]*dialectTest{
	{dialect: wire.Cohere, messages: "messages", tools: "tools", seeds: requestSeeds},
	{dialect: wire.Interactions, messages: "input", tools: "tools", seeds: stepSeeds},
}, dialectTests...)

// histories makes bodies of random histories from the parts of seeds, each a small change of an earlier one.
type histories struct {
	r                    *rand.Rand
	messages, tools      string
	elements, sets, rest []string
	history              []string
	head, tail           []string
}

func newHistories(r *rand.Rand, messages, tools string, seeds []string) *histories {
	h := &histories{r: r, messages: messages, tools: tools}
	for _, seed := range seeds {
		if !json.Valid([]byte(seed)) {
			continue
		}
		root := parse([]byte(seed))
		for i, k := range root.keys {
			v := root.elems[i]
			raw := seed[v.start:v.end]
			switch {
			case k == messages && v.kind == Array:
				for _, e := range v.elems {
					h.elements = append(h.elements, seed[e.start:e.end])
				}
			case k == tools:
				h.sets = append(h.sets, raw)
			case k != messages:
				h.rest = append(h.rest, fmt.Sprintf("%q:%s", k, raw))
			}
		}
	}
	h.head = h.members()
	h.tail = h.members()
	return h
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (h *histories) members() (list []string) {
	for range h.r.IntN(3) {
		list = append(list, pick(h.r, h.rest))
	}
	if len(h.sets) > 0 && h.r.IntN(2) == 0 {
		list = append(list, fmt.Sprintf("%q:%s", h.tools, pick(h.r, h.sets)))
	}
	return list
}

// element returns a message of a seed, occasionally with a unique text.
func (h *histories) element() string {
	e := pick(h.r, h.elements)
	if h.r.IntN(2) == 0 {
		return strings.Replace(e, `"content":"`, fmt.Sprintf(`"content":"%s%d`, strings.Repeat("x", h.r.IntN(200)), h.r.IntN(100)), 1)
	}
	return e
}

// edit continues the history like an agent: mostly at its end.
func (h *histories) edit() {
	switch n := h.r.IntN(20); {
	case n == 0 && len(h.history) > 0:
		h.history[h.r.IntN(len(h.history))] = h.element()
	case n == 1 && len(h.history) > 0:
		at := h.r.IntN(len(h.history))
		h.history = slices.Delete(h.history, at, at+1)
	case n == 2:
		h.history = slices.Insert(h.history, h.r.IntN(len(h.history)+1), h.element())
	case n == 3:
		h.history = h.history[:h.r.IntN(len(h.history)+1)]
	case n == 4:
		h.head = h.members()
	case n == 5:
		h.tail = h.members()
	}
	for range h.r.IntN(4) {
		h.history = append(h.history, h.element())
	}
}

func (h *histories) body() []byte {
	gap := pick(h.r, []string{",", ",", ", ", " ,\n\t"})
	array := func(list []string) string { return fmt.Sprintf("%q:[%s]", h.messages, strings.Join(list, gap)) }
	members := slices.Clone(h.head)
	if h.r.IntN(12) == 0 { // a duplicate, which the later one replaces
		members = append(members, array(h.history[:h.r.IntN(len(h.history)+1)]))
	}
	members = append(append(members, array(h.history)), h.tail...)
	if h.r.IntN(12) == 0 {
		members = append(members, pick(h.r, []string{array(h.history), fmt.Sprintf("%q:null", h.messages), fmt.Sprintf("%q:{}", h.messages)}))
	}
	b := "{" + strings.Join(members, gap) + "}"
	switch h.r.IntN(12) {
	case 0:
		return []byte(b[:h.r.IntN(len(b)+1)])
	case 1:
		return mutate(h.r, b)
	}
	return []byte(b)
}
