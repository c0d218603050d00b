package main

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// slackCall is how long a call of Slack's API takes.
const slackCall = 100 * time.Millisecond

// slackLimits are Slack's rate limits, in front of a local Slack: one message a second in a channel, replies in threads
// included, and 50 calls of chat.update a minute. Slack allows short bursts of messages and does not say how short; here
// there are none. What is above a limit is answered with 429, and Retry-After in whole seconds.
type slackLimits struct {
	next http.Handler

	mu       sync.Mutex // guards the rest
	post     bucket
	update   bucket
	accepted map[string]int // calls by method
	refused  map[string]int
}

func newSlackLimits(next http.Handler) *slackLimits {
	return &slackLimits{
		next: next, post: bucket{size: 1, every: time.Second}, update: bucket{size: 50, every: time.Minute / 50},
		accepted: map[string]int{}, refused: map[string]int{},
	}
}

func (l *slackLimits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(slackCall)
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	if wait := l.take(method, time.Now()); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"ok":false,"error":"ratelimited"}`)
		return
	}
	l.next.ServeHTTP(w, r)
}

// take returns how long to wait before a call of method is accepted; 0 when it is.
func (l *slackLimits) take(method string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch method {
	case "chat.postMessage":
		wait = l.post.take(now)
	case "chat.update":
		wait = l.update.take(now)
	}
	if wait > 0 {
		l.refused[method]++
	} else {
		l.accepted[method]++
	}
	return wait
}

// report says what was called and refused.
func (l *slackLimits) report() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("each call takes %v; accepted %v, over the rate limits and refused %v", slackCall, l.accepted, l.refused)
}

// A bucket holds size tokens, and gets one back each time.
type bucket struct {
	size  int
	every time.Duration
	full  time.Time // when all tokens will be back
}

// take takes a token, or returns how long there will be none.
func (b *bucket) take(now time.Time) time.Duration {
	if b.full.Before(now) {
		b.full = now
	}
	if wait := b.full.Add(b.every).Sub(now.Add(time.Duration(b.size) * b.every)); wait > 0 {
		return wait
	}
	b.full = b.full.Add(b.every)
	return 0
}
