package engine

import (
	"context"
	"sync"
	"time"
)

// A signal wakes one goroutine. Raising it again before the goroutine waits has no effect. It is never closed.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// wait returns true when s is raised or, if d is positive, after d. It returns false when ctx ends.
func (s signal) wait(ctx context.Context, d time.Duration) bool {
	var timer <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-s:
	case <-timer:
	}
	return true
}

// listeners are the signals of those who wait for changes.
type listeners map[signal]struct{}

// raise raises all signals.
func (l listeners) raise() {
	for s := range l {
		s.raise()
	}
}

// add returns a signal that every change raises, until stop is called. mu guards l.
func (l listeners) add(mu sync.Locker) (changed signal, stop func()) {
	changed = newSignal()
	mu.Lock()
	defer mu.Unlock()
	l[changed] = struct{}{}
	return changed, func() {
		mu.Lock()
		defer mu.Unlock()
		delete(l, changed)
	}
}
