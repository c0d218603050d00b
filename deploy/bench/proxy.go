package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
)

const (
	firstByte = 10 * time.Millisecond // what the provider of proxies needs to begin an answer
	nextChunk = 5 * time.Millisecond  // between two chunks of a stream
	chunks    = 20                    // of a stream, of 40 bytes of text each
	warmUp    = 3 * time.Second
)

// A gateway is a proxy that is measured; without processes, the provider itself.
type gateway struct {
	name, base string // base is the URL that ends in /v1
	header     http.Header
	processes  []process.Process
	samples    [2][]sample // of whole answers and of streams, by run
}

// A sample is median and 99th percentile of the milliseconds until the first and until the last byte of an answer, the CPU
// milliseconds of a call, and the largest memory in MB.
type sample [6]float64

// proxies measures the proxies of llmtap and of others in front of the same provider, with calls that come at a rate whether or
// not earlier ones have ended. The time of a call begins when it is due.
func proxies(ctx context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	var o options
	o.flags(flags)
	rate := flags.Float64("rate", 10, "calls per second")
	long := flags.Duration("for", 20*time.Second, "duration of each measurement")
	runs := flags.Int("runs", 3, "measurements of each proxy, in turns; the least of each number counts")
	only := flags.String("only", "", "proxies to run, separated by commas: bare, llmtap, up, litellm, portkey")
	_ = flags.Parse(args) // exits
	cache, err := o.build(ctx)
	if err != nil {
		return err
	}
	text, err := readCorpus(ctx)
	if err != nil {
		return err
	}
	provider := httptest.NewServer(http.HandlerFunc(provide))
	defer provider.Close()
	all := []*gateway{{name: "direct", base: provider.URL + "/v1"}}
	return o.inDir(func(dir string) error {
		for _, peer := range []struct {
			name  string
			start func(context.Context, *site) (*gateway, func(), error)
		}{{"bare", startBare}, {"llmtap", startProxy}, {"up", startUp}, {"litellm", startLiteLLM}, {"portkey", startPortkey}} {
			if *only != "" && !slices.Contains(strings.Split(*only, ","), peer.name) {
				continue
			}
			s := &site{options: &o, cache: cache, dir: filepath.Join(dir, peer.name), upstream: provider.URL}
			if err := os.Mkdir(s.dir, 0o700); err != nil {
				return err
			}
			if err := s.listen(ctx); err != nil {
				return err
			}
			g, stop, err := peer.start(ctx, s)
			if err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s is left out: %v\n", peer.name, err)
				continue
			}
			defer stop()
			all = append(all, g)
		}
		for range *runs {
			for _, g := range all {
				for i := range g.samples {
					s, err := g.measure(ctx, text, *rate, *long, i == 1)
					if err != nil {
						return fmt.Errorf("%s: %w", g.name, err)
					}
					fmt.Fprintf(os.Stderr, "%s, stream %t: %.2f\n", g.name, i == 1, s)
					g.samples[i] = append(g.samples[i], s)
				}
			}
		}
		printGateways(out, fmt.Sprintf("10 KB, %g calls/s", *rate), all)
		return nil
	})
}

var streams = regexp.MustCompile(`"stream": ?true`)

// provide answers as OpenAI does.
func provide(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	time.Sleep(firstByte)
	answer := load.Message("assistant", strings.Repeat("The tests pass, and nothing else changed", chunks))
	if !streams.Match(body) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(load.ChatResponse(answer)) // fails only if the client has gone
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for chunk := range bytes.SplitAfterSeq(load.Streamed(answer), []byte("\n\n")) {
		_, _ = w.Write(chunk)
		_ = http.NewResponseController(w).Flush()
		time.Sleep(nextChunk)
	}
}

// measure sends calls to g at a rate.
func (g *gateway) measure(ctx context.Context, text *corpus, rate float64, long time.Duration, stream bool) (sample, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, IdleConnTimeout: 2 * time.Second}} // before any proxy closes them
	defer client.CloseIdleConnections()
	n, warm := int(rate*(warmUp+long).Seconds()), int(rate*warmUp.Seconds())
	first, end, errs := make([]float64, n), make([]float64, n), make([]error, n+1)
	var calls sync.WaitGroup
	var stop func() process.Usage
	start, i := time.Now(), 0
	errs[n] = single(text, "proxy", 10_000, n).Calls(func(c *load.Call) bool {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		if i == warm {
			stop = process.Watch(g.processes)
		}
		body, at := c.Request, i
		if stream {
			body = slices.Concat([]byte(`{"stream":true,`), body[1:])
		}
		calls.Go(func() { first[at], end[at], errs[at] = g.call(ctx, client, body, due) })
		i++
		return true
	})
	calls.Wait()
	u := stop()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return sample{}, errs[i]
	}
	first, end = first[warm:], end[warm:]
	slices.Sort(first)
	slices.Sort(end)
	p50, p99 := len(end)/2, len(end)*99/100
	return sample{first[p50], first[p99], end[p50], end[p99], sum(u.CPU) * 1000 / float64(len(end)), float64(u.Peak) / 1e6}, nil
}

// call returns the milliseconds from due to the first and to the last byte of the answer.
func (g *gateway) call(ctx context.Context, client *http.Client, body []byte, due time.Time) (first, end float64, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	maps.Copy(q.Header, g.header)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+key)
	res, err := client.Do(q)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	b := make([]byte, 1, 8192)
	_, err = io.ReadFull(res.Body, b)
	first = time.Since(due).Seconds() * 1000
	if err != nil {
		return 0, 0, err
	}
	rest, err := io.ReadAll(res.Body)
	end = time.Since(due).Seconds() * 1000
	if b = append(b, rest...); err == nil && (res.StatusCode != http.StatusOK || bytes.Count(b, []byte("nothing else")) != chunks) {
		err = fmt.Errorf("answer %s: %.500s", res.Status, b)
	}
	return first, end, err
}

// printGateways prints what each proxy adds to the times of the provider, which comes first.
func printGateways(out io.Writer, title string, all []*gateway) {
	columns := []struct {
		name          string
		answer, value int // indices of gateway.samples and of sample
	}{
		{"p50 ms", 0, 2},
		{"p99", 0, 3},
		{"CPU ms/call", 0, 4},
		{"stream: first chunk p50 ms", 1, 0},
		{"p99", 1, 1},
		{"end p50", 1, 2},
		{"p99", 1, 3},
		{"CPU ms/call", 1, 4},
		{"memory MB", 1, 5},
	}
	table := [][]string{{title}}
	for _, c := range columns {
		table[0] = append(table[0], c.name)
	}
	for _, g := range all {
		line := []string{g.name}
		for _, c := range columns {
			least := func(g *gateway) float64 {
				return slices.MinFunc(g.samples[c.answer], func(a, b sample) int { return int(1e6 * (a[c.value] - b[c.value])) })[c.value]
			}
			if c.value == 5 {
				line = append(line, fmt.Sprintf("%.0f", least(g)))
			} else if g == all[0] || c.value == 4 {
				line = append(line, fmt.Sprintf("%.2f", least(g)))
			} else {
				line = append(line, fmt.Sprintf("%+.2f", least(g)-least(all[0])))
			}
		}
		table = append(table, line)
	}
	printTable(out, table)
}

// reverseProxy serves a bare httputil.ReverseProxy on an address, in front of an upstream: a process of its own.
func reverseProxy(_ context.Context, _ io.Writer, _ *flag.FlagSet, args []string) error {
	u, err := url.Parse(args[1])
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }, Transport: transport, FlushInterval: -1}
	return (&http.Server{Addr: args[0], Handler: p, ReadHeaderTimeout: time.Minute}).ListenAndServe()
}
