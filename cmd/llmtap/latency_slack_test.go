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

// slackDelay is the duration of a request to Slack.
const slackDelay = 100 * time.Millisecond

// slackLimits applies Slack's rate limits to a local Slack: one message per second and channel, including replies in threads,
// and 50 calls of chat.update per minute. Slack also accepts short bursts of messages, of undocumented length, and does not
// guarantee to show them (https://docs.slack.dev/apis/web-api/rate-limits), so slackLimits accepts none unless -slack-burst is
// given. Requests above a limit get status 429, with Retry-After in whole seconds.
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
		next: next, post: bucket{size: max(*slackBurst, 1), every: time.Second}, update: bucket{size: 50, every: time.Minute / 50},
		accepted: map[string]int{}, refused: map[string]int{},
	}
}

func (l *slackLimits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(slackDelay)
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

// take returns the time until a call of method is accepted; 0 if it is accepted now.
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

// report describes the accepted and refused calls.
func (l *slackLimits) report() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%v per call; accepted %v, refused by rate limits %v", slackDelay, l.accepted, l.refused)
}

// A bucket has size tokens, and regains one per interval.
type bucket struct {
	size  int
	every time.Duration
	full  time.Time // when all tokens are regained
}

// take takes a token, or returns the time until there is one.
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
