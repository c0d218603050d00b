package analyzer

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/ingest/event"
)

// early is a response that waits for its request.
type early struct {
	ev event.Event
	at Position
}

func (e *early) size() int { return eventBytes + len(e.ev.Body) }

// again reports whether ev is of an exchange that is over, whose rows are out. It changes nothing.
func (a *Analyzer) again(ev *event.Event) bool {
	x, ok := a.done.get(keyOf(ev))
	if !ok {
		return false
	}
	if x&expired != 0 {
		a.drop(dropLate)
	} else {
		a.drop(dropDuplicate)
	}
	// Remembered as long again: a start that reads this one must know what it is.
	a.used(x.minSeq())
	a.remember(keyOf(ev), x)
	return true
}

// remember keeps the id of an exchange that is over.
func (a *Analyzer) remember(id string, x completed) {
	if n := a.done.add(id, x, a.now); n > 0 && a.emit {
		a.metrics.dropped.WithLabelValues(dropOverflow).Add(float64(n))
	}
}

// waiting reports whether this half of the exchange is there already.
func (a *Analyzer) waiting(ev *event.Event) bool {
	if ev.Kind == event.Request {
		return a.open.Get(keyOf(ev)) != nil
	}
	return a.early.Get(keyOf(ev)) != nil
}

// half takes one whole half of an exchange; need is the oldest sequence it was made from.
func (a *Analyzer) half(ev *event.Event, at Position, need uint64) {
	if a.again(ev) {
		return
	}
	if a.waiting(ev) {
		a.drop(dropDuplicate)
		return
	}
	key := keyOf(ev)
	if ev.Kind == event.Request {
		it := a.early.Take(key)
		if it != nil {
			a.held -= it.Value.size()
			need = min(need, it.MinSeq)
		}
		o := a.request(ev, at, need)
		a.runAsked(o, ev, need)
		a.goesOn(o)
		if it != nil {
			a.complete(o, &it.Value.ev, at, need)
			return
		}
		a.open.Add(strings.Clone(key), o, need, a.now)
		a.bytes += o.size()
		return
	}
	if it := a.takeOpen(key); it != nil {
		a.complete(it.Value, ev, at, min(need, it.MinSeq))
		return
	}
	e := &early{ev: *ev, at: at}
	e.ev.Body = append([]byte(nil), ev.Body...)
	a.held += e.size()
	a.early.Add(key, e, need, a.now)
}

// takeOpen removes and returns the request of an exchange, or nil.
func (a *Analyzer) takeOpen(key string) *expiry.Entry[string, *open] {
	it := a.open.Take(key)
	if it != nil {
		a.bytes -= it.Value.size()
	}
	return it
}
