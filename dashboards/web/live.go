package web

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	maxLive      = 200              // open event streams
	liveInterval = 10 * time.Second // between two refreshes of numbers
	liveMinimum  = time.Second      // between any two refreshes
)

// live tells open pages when to refresh.
type live struct {
	slots   chan struct{} // bounds the open event streams
	changes func(ctx context.Context) <-chan struct{}
	now     func() time.Time
}

// ServeHTTP sends an event whenever an open page should refresh: after a change of alerts, and every 10 seconds for numbers.
func (l live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		http.Error(w, "too many pages are open; this one is not refreshed", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Hour) // the browser reconnects
	defer cancel()
	var changes <-chan struct{}
	if l.changes != nil {
		changes = l.changes(ctx)
	}
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies must not wait for more
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	send := func(event string) error {
		_ = rc.SetWriteDeadline(time.Now().Add(liveInterval)) // a client that does not read
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %d\n\n", event, l.now().Unix()); err != nil {
			return err
		}
		return rc.Flush()
	}
	if send("open") != nil {
		return
	}
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-changes:
			if !ok {
				changes = nil
				continue
			}
			if wait := liveMinimum - time.Since(last); wait > 0 {
				select {
				case <-time.After(wait):
				case <-ctx.Done():
					return
				}
			}
		case <-tick.C:
		}
		last = time.Now()
		if send("refresh") != nil {
			return
		}
	}
}
