package engine

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A ReceiverState says what waits for a receiver, and why.
type ReceiverState struct {
	Name     string
	Waiting  int       // groups with news that the receiver has not accepted
	Since    time.Time // since when the first of them may wait; zero if none waits
	Err      error     // the last failure since the last accepted notification; nil: none
	FailedAt time.Time // time of the first of these failures
}

// Receivers returns the states of the receivers that are Named, of a leading engine.
func (e *Engine) Receivers() (list []ReceiverState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, r := range e.dispatcher.receivers {
		if r.name == "" || !e.groups.leads {
			continue
		}
		s := ReceiverState{Name: r.name, Err: r.faults.err, FailedAt: r.faults.since}
		for _, o := range e.groups.open {
			if o.told(&o.sent[i]) || o.sent[i].rejected == o.news {
				continue
			}
			s.Waiting++
			if s.Since.IsZero() || o.untold.Before(s.Since) {
				s.Since = o.untold
			}
		}
		list = append(list, s)
	}
	return list
}

// waiting exports the states of the receivers.
type waiting struct {
	e                     *Engine
	number, oldest, since *prometheus.Desc
}

func newWaiting(e *Engine) waiting {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("llmtap_alerts_"+name, help, []string{"receiver"}, nil)
	}
	return waiting{
		e:      e,
		number: desc("notifications_waiting", "Alert groups with news that the receiver has not accepted yet."),
		oldest: desc("notifications_oldest_waiting_seconds", "Time for which the oldest of them has been waiting."),
		since:  desc("receiver_failing_seconds", "Time since the first failed notification after the last accepted one; 0 if none failed."),
	}
}

// Describe implements prometheus.Collector.
func (w waiting) Describe(out chan<- *prometheus.Desc) {
	out <- w.number
	out <- w.oldest
	out <- w.since
}

// Collect implements prometheus.Collector.
func (w waiting) Collect(out chan<- prometheus.Metric) {
	age := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return time.Since(t).Seconds()
	}
	for _, s := range w.e.Receivers() {
		for desc, v := range map[*prometheus.Desc]float64{w.number: float64(s.Waiting), w.oldest: age(s.Since), w.since: age(s.FailedAt)} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, s.Name)
		}
	}
}
