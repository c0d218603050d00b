package engine

import (
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	quietSlot   = 600                // seconds of a slot, the shortest silence that is remembered
	quietDay    = 86_400 / quietSlot // slots
	quietDays   = 7
	quietAround = 3600 / quietSlot // slots before and after the same time of another day
	quietSlots  = (quietDays + 1) * quietDay
)

// States of a slot.
const (
	slotUnknown = '?' // llmtap did not see all of it
	slotSilent  = '.' // no service called a model
	slotCalls   = 'c'
)

// quietTimes remember for a week in which ten minutes no service called a model. Engine.mu guards it.
type quietTimes struct {
	slots [quietSlots]byte // by the number of the slot, modulo quietSlots
	slot  int64            // the newest one, in slots since 1970; 0 before the first step
	last  int64            // last step; 0 before the first one of this process
	since int64            // second since which every minute was observed
}

// savedQuiet is the stored form.
type savedQuiet struct {
	Slot  int64  `json:"slot"`
	Slots string `json:"slots"`
}

func newQuiet() *quietTimes {
	q := &quietTimes{}
	for i := range q.slots {
		q.slots[i] = slotUnknown
	}
	return q
}

func (q *quietTimes) at(slot int64) *byte { return &q.slots[slot%quietSlots] }

// observe notes the seconds before step, in which llmtap observed the fleet or not.
func (q *quietTimes) observe(step int64, tallies []tally, observed bool) {
	if q.last == 0 || !observed || step-q.last > outageAfter {
		q.since = step - 1
	}
	q.last = step
	q.advance((step - 1) / quietSlot)
	for _, t := range tallies {
		for i := range t.Counts {
			if t.Counts[i].Metric == analyzer.MetricCalls {
				*q.at(q.slot) = slotCalls
				return
			}
		}
	}
}

// advance begins slot. The one before was silent if all of it was observed without a call.
func (q *quietTimes) advance(slot int64) {
	if q.slot > 0 && slot > q.slot && *q.at(q.slot) == slotUnknown && q.since <= q.slot*quietSlot {
		*q.at(q.slot) = slotSilent
	}
	for q.slot = max(q.slot, slot-quietSlots); q.slot < slot; {
		q.slot++
		*q.at(q.slot) = slotUnknown
	}
}

// usual returns the share of the days of the past week on which no service called a model for ten minutes or longer, within an hour of
// this time of day. ok is false if no day is known.
func (q *quietTimes) usual() (share float64, ok bool) {
	var days, silent float64
	for d := range int64(quietDays) {
		known, was := false, false
		for i := int64(-quietAround); i <= quietAround; i++ {
			s := q.slot - (d+1)*quietDay + i
			if s <= 0 {
				continue
			}
			known, was = known || *q.at(s) != slotUnknown, was || *q.at(s) == slotSilent
		}
		if known {
			days++
		}
		if was {
			silent++
		}
	}
	if days == 0 {
		return 0, false
	}
	return silent / days, true
}

// gauges returns MetricQuiet if it is known.
func (q *quietTimes) gauges() []Gauge {
	if share, ok := q.usual(); ok {
		return []Gauge{{Metric: rules.MetricQuiet, Value: share}}
	}
	return nil
}

// save returns the known slots up to the newest complete one.
func (q *quietTimes) save() savedQuiet {
	if q.slot == 0 {
		return savedQuiet{}
	}
	b := make([]byte, 0, quietSlots)
	for s := q.slot - quietSlots + 1; s <= q.slot; s++ {
		if s > 0 {
			b = append(b, *q.at(s))
		}
	}
	return savedQuiet{q.slot, string(b)}
}

// restore adds the slots that another process, or this one before a restart, has seen.
func (q *quietTimes) restore(saved savedQuiet) {
	if saved.Slot <= 0 || len(saved.Slots) > quietSlots {
		return
	}
	if q.slot == 0 {
		q.slot = saved.Slot
	}
	first := saved.Slot - int64(len(saved.Slots)) + 1
	for i := range len(saved.Slots) {
		s := first + int64(i)
		if s > 0 && s > q.slot-quietSlots && s <= q.slot && *q.at(s) == slotUnknown {
			*q.at(s) = saved.Slots[i]
		}
	}
}
