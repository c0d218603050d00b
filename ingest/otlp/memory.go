package otlp

import (
	"context"
	"encoding/json"
)

// maxRemembered bounds a message of a memory: none is larger than 1 MiB.
const maxRemembered = 256

// A memory is what is remembered of a payload. It is stored before the events of the payload, so that a process that is
// killed does not forget how the spans of its events count.
type memory struct {
	Spans []arrival `json:",omitempty"`
	Calls []sibling `json:",omitempty"`
}

// messages returns m as messages that NATS accepts.
func (m memory) messages() (all [][]byte) {
	for len(m.Spans)+len(m.Calls) > 0 {
		n, k := min(len(m.Spans), maxRemembered), min(len(m.Calls), maxRemembered)
		data, _ := json.Marshal(memory{m.Spans[:n], m.Calls[:k]}) // never fails
		all, m = append(all, data), memory{m.Spans[n:], m.Calls[k:]}
	}
	return all
}

// restore adds what an earlier process remembered of a payload.
func (m *Mapper) restore(data []byte) {
	var earlier memory
	_ = json.Unmarshal(data, &earlier) // fails only for another version's
	m.nested.restore(earlier.Spans)
	m.beside.restore(earlier.Calls)
}

// recall restores what earlier processes remembered, before the first payload.
func (r *Receiver) recall(ctx context.Context) error {
	r.recalling.Lock()
	defer r.recalling.Unlock()
	if r.recalled {
		return nil
	}
	err := r.o.Recall(ctx, r.mapper.restore)
	r.recalled = err == nil
	return err
}
