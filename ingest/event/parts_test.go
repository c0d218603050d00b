package event

import (
	"bytes"
	"testing"
)

func TestMessages(t *testing.T) {
	f := func(size int, want ...int) {
		t.Helper()
		whole := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		e := &Event{Kind: Request, Exchange: "x", Body: whole}
		var joined []byte
		i := 0
		for m := range e.Messages() {
			if i >= len(want) || len(m.Body) != want[i] || m.Part != i+1 || m.Parts != len(want) || m.BodyBytes != size || m.Exchange != "x" {
				t.Errorf("%d bytes: message %d is part %d of %d, %d of %d bytes", size, i, m.Part, m.Parts, len(m.Body), m.BodyBytes)
			}
			joined = append(joined, m.Body...)
			i++
		}
		if i != len(want) || !bytes.Equal(joined, whole) {
			t.Errorf("%d bytes: %d messages, %d bytes", size, i, len(joined))
		}
	}
	f(0, 0)
	f(PartBytes-1, PartBytes-1)
	f(PartBytes, PartBytes)
	f(PartBytes+1, PartBytes, 1)
	f(3*PartBytes, PartBytes, PartBytes, PartBytes)

	for m := range (&Event{Body: make([]byte, 2*PartBytes)}).Messages() {
		if m.Part == 2 {
			t.Error("the second part was made after the caller stopped")
		}
		break
	}
}
