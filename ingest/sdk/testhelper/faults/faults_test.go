package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const (
	rounds  = 4
	timeout = 450 * time.Millisecond
)

// seen is what an agent observes of a call and of the next one, and their durations.
type seen struct {
	first, next         string
	firstTook, nextTook time.Duration
}

// TestGoHook compares what an agent observes of each fault with and without the hook, over a pool of one connection, and prints
// what the hook adds to the call and to the next one.
func TestGoHook(t *testing.T) {
	l := must.Get(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	defer l.Close()
	go Serve(l)
	host := l.Addr().String()
	hook := must.Get(llmtap.Open(llmtap.Config{URL: "nats://127.0.0.1:1", Service: "svc", Hosts: []string{host}, FlushTimeout: 1}))(t)
	defer hook.Close()
	var mu sync.Mutex
	table := []string{fmt.Sprintf("%-34s %12s %18s", "added by the hook, ms", "call: p50 worst", "next: p50 worst")}
	t.Run("faults", func(t *testing.T) {
		for _, status := range []int{500, 200} {
			for _, name := range names {
				for _, how := range []string{"read", "close", "close, wrapped transport"} {
					t.Run(fmt.Sprintf("%s/%d/%s", name, status, how), func(t *testing.T) {
						t.Parallel()
						url := fmt.Sprintf("http://%s/%s/%d/v1/chat/completions", host, name, status)
						ok := fmt.Sprintf("http://%s/ok/200/v1/chat/completions", host)
						var without, with []seen
						for try := 0; ; try++ { // on a busy machine, a call may time out
							without, with = observe(t, nil, url, ok, how), observe(t, hook, url, ok, how)
							if outcomes(without) == outcomes(with) {
								break
							}
							if try == 2 {
								t.Fatalf("without the hook:\n%s\nwith it:\n%s", outcomes(without), outcomes(with))
							}
						}
						mu.Lock()
						defer mu.Unlock()
						table = append(table, fmt.Sprintf("%-34s", strings.TrimPrefix(t.Name(), "TestGoHook/faults/"))+
							added(without, with, func(s seen) time.Duration { return s.firstTook })+
							added(without, with, func(s seen) time.Duration { return s.nextTook }))
					})
				}
			}
		}
	})
	slices.Sort(table[1:])
	t.Log("\n" + strings.Join(table, "\n"))
	must.Wait(t, "no call is open", func() bool { return hook.Stats().Open == 0 })
}

// wrapped is a transport of an unknown type.
type wrapped struct{ http.RoundTripper }

func observe(t *testing.T, hook *llmtap.Hook, url, ok, how string) []seen {
	t.Helper()
	var all []seen
	for range rounds {
		base := &http.Transport{MaxConnsPerHost: 1}
		var rt http.RoundTripper = base
		if strings.Contains(how, "wrapped") {
			rt = wrapped{base}
		}
		if hook != nil {
			rt = hook.Transport(rt)
		}
		var s seen
		start := time.Now()
		s.first = call(t, rt, url, how)
		between := time.Now()
		s.next = call(t, rt, ok, "read")
		s.firstTook, s.nextTook = between.Sub(start), time.Since(between)
		all = append(all, s)
		base.CloseIdleConnections()
	}
	return all
}

var port = regexp.MustCompile(`:\d{4,5}`)

// call makes a call and returns what the agent observes.
func call(t *testing.T, rt http.RoundTripper, url, how string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}")))(t)
	resp, err := (&http.Client{Transport: rt}).Do(req)
	if err != nil {
		return port.ReplaceAllString(err.Error(), "")
	}
	if how == "read" {
		body, err := io.ReadAll(resp.Body)
		return port.ReplaceAllString(fmt.Sprintf("%d %d bytes %v, close: %v", resp.StatusCode, len(body), err, resp.Body.Close()), "")
	}
	closed := resp.Body.Close()
	_, err = resp.Body.Read(make([]byte, 1))
	return fmt.Sprintf("%d close: %v, then %v, %v", resp.StatusCode, closed, err, resp.Body.Close())
}

// outcomes returns the different outcomes, sorted.
func outcomes(all []seen) string {
	var lines []string
	for _, s := range all {
		lines = append(lines, s.first+"; next: "+s.next)
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

func added(without, with []seen, of func(seen) time.Duration) string {
	sorted := func(all []seen) []float64 {
		var ms []float64
		for _, s := range all {
			ms = append(ms, of(s).Seconds()*1000)
		}
		slices.Sort(ms)
		return ms
	}
	a, b := sorted(without), sorted(with)
	return fmt.Sprintf("%11.1f %6.1f", b[rounds/2]-a[rounds/2], b[rounds-1]-a[rounds-1])
}
