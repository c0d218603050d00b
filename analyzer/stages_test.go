package analyzer

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestStageRate(t *testing.T) {
	m := newPrompts(&Config{SessionLookback: time.Hour}, interner{})
	var recorded, live stage
	var rate int64
	for range 20 {
		if _, rate := m.see(1, &recorded, &promptcache.Prompt{}, 0); rate != 0 {
			t.Fatalf("%d calls a minute at unknown times", rate)
		}
		_, rate = m.see(2, &live, &promptcache.Prompt{Sent: 60}, 0)
	}
	must.Equal(t, rate, 20, "calls a minute")
}

// Stages with the same system prompt share its text, and a stage has one text, not one per generation.
func TestSystemTexts(t *testing.T) {
	m := newPrompts(&Config{SessionLookback: time.Hour}, interner{})
	at := func(minute int) time.Time { return time.Unix(1_790_000_000+int64(60*minute), 0) }
	keep := func(k uint64, minute int, hash uint64, text string) *stage {
		st := m.newest(k, 1, at(minute))
		m.keep(k, st, hash, []byte(text))
		must.Equal(t, string(m.text(k)), text, "text of the stage")
		return st
	}
	a, b := keep(1, 0, 10, "You plan."), keep(2, 0, 10, "You plan.")
	must.Equal(t, a.text, b.text, "two stages")
	must.Equal(t, keep(1, 20, 10, "You plan.").text, a.text, "the next generation")
	keep(2, 0, 11, "You write.")
	must.Equal(t, string(m.text(1)), "You plan.", "the text that the other stage had")
	must.Equal(t, string(keep(3, 20, 10, "You {plan}.").text.text), "You {plan}.", "another text with the same hash")
	for i := range uint64(20) {
		keep(4, int(i), 20+i, fmt.Sprint("It is minute ", i))
	}
	texts := 0
	for st := range m.stages.All(4) {
		if st.text != nil {
			texts++
		}
	}
	must.Equal(t, texts, 1, "texts of a stage that differs in each call")
	must.Equal(t, len(m.texts), 3, "texts are indexed")
}

// What every call in flight has fits into the allocator's class of 1,280 bytes, with the 8 bytes that it adds; the next one is 1,408.
func TestPendingBytes(t *testing.T) {
	if n := unsafe.Sizeof(pending{}); n > 1272 {
		t.Errorf("a pending exchange has %d bytes", n)
	}
}
