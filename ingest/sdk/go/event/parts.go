package event

import "iter"

// PartBytes is the maximum payload of a message; longer bodies are split into parts.
const PartBytes = 512 << 10

// headerRoom is reserved for the headers of a message, in bytes.
const headerRoom = 64 << 10

// PartSize returns the number of body bytes that fit into one message if the server accepts maxPayload bytes including
// headers.
func PartSize(maxPayload int64) int {
	return int(min(PartBytes, max(maxPayload-headerRoom, maxPayload/2, 1)))
}

// Messages yields e, or its parts if the body is longer than partBytes. The parts share the memory of e.
func (e *Event) Messages(partBytes int) iter.Seq[*Event] {
	return func(yield func(*Event) bool) {
		n := max(1, (len(e.Body)+partBytes-1)/partBytes)
		size := len(e.Body)
		if e.stubbed() {
			size = max(size, e.BodyBytes)
		}
		for i := range n {
			m := *e
			m.BodyBytes, m.Part, m.Parts = size, i+1, n
			m.Body = e.Body[i*partBytes : min((i+1)*partBytes, len(e.Body))]
			if !yield(&m) {
				return
			}
		}
	}
}
