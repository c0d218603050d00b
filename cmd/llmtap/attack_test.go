package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var allAttacks = flag.String("attacks", "short", "attacks of TestAttacks: all or short")

// securityPage is the page that contains the table of TestAttacks.
var securityPage = filepath.Join("..", "..", "deploy", "SECURITY.md")

const (
	// attackMemory is memory.limit of the attacked collectors.
	attackMemory = 256 << 20
	// attackMargin is what the process may take beyond it: the program itself, stacks, buffers of connections.
	attackMargin = 200 << 20
)

// An attack is one row of the table of TestAttacks for each of its listeners.
type attack struct {
	name      string
	listeners []string
	short     bool // also without -attacks all
	waits     bool // for a timeout of the listener
	// run attacks a listener and returns what happened.
	run func(w *attackWorld, listener string) string
	// want matches what happens if the listener is safe.
	want string
	// open has known weaknesses by listener: the row is printed with it, and the test fails once the attack fails.
	open map[string]string
}

// attacks are the rows in the order of the table. An attack that is added here is run and printed.
var attacks = slices.Concat(parserAttacks, accessAttacks, tlsAttacks, loadAttacks, natsAttacks, otlpAttacks, proxyAttacks, queryAttacks, pageAttacks)

// An attackWorld is two collectors, whom attacks share, and what attackers try to reach through them.
type attackWorld struct {
	*testing.T
	plain    *target // as installed: without TLS and tokens
	secured  *target // with both, and client certificates
	upstream *upstreamServer
	canary   *canary
}

// with returns w with another test.
func (w *attackWorld) with(t *testing.T) *attackWorld {
	c := *w
	c.T = t
	return &c
}

// Each listener survives each attack: it refuses, the collector works afterwards, and its memory stays within its limit.
//
//	go test ./cmd/llmtap -run TestAttacks -attacks all -v
//	go test ./cmd/llmtap -run TestAttacks -attacks all -update
func TestAttacks(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	t.Parallel()
	w := newAttackWorld(t)
	var rows [][]string
	var mu sync.Mutex // guards rows
	var all sync.WaitGroup
	slots := make(chan struct{}, 8) // most attacks compute
	for _, a := range attacks {
		if *allAttacks != "all" && !a.short {
			continue
		}
		for _, listener := range a.listeners {
			all.Go(func() {
				if !a.waits {
					slots <- struct{}{}
					defer func() { <-slots }()
				}
				t.Run(listener+"/"+a.name, func(t *testing.T) { // not t.Parallel, whose limit is the number of processors
					row := a.try(w.with(t), listener)
					mu.Lock()
					defer mu.Unlock()
					rows = append(rows, row)
				})
			})
		}
	}
	all.Wait()
	rows = append(rows, w.survived()...)
	rows = merge(inOrder(rows))
	t.Log("\n" + columns(append([][]string{{"listener", "attack", "what happened", "verdict"}}, rows...)))
	checkSecurityPage(t, rows)
}

// try runs an attack on a listener and returns its row.
func (a *attack) try(w *attackWorld, listener string) []string {
	happened := a.run(w, listener)
	safe := regexp.MustCompile(`^(?:` + a.want + `)$`).MatchString(happened)
	verdict := "safe"
	switch {
	case !safe && a.open[listener] != "":
		verdict = "open: " + a.open[listener]
	case !safe:
		verdict = "BAD"
		w.Errorf("%s, want %s", happened, a.want)
	case a.open[listener] != "":
		w.Errorf("no longer open: remove %q", a.open[listener])
	}
	return []string{listener, a.name, happened, verdict}
}

// inOrder sorts rows as attacks, and the others, which are about the collectors, last.
func inOrder(rows [][]string) [][]string {
	rank := func(row []string) int {
		for i, a := range attacks {
			if a.name == row[1] {
				return i*100 + slices.Index(a.listeners, row[0])
			}
		}
		return len(attacks) * 100
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return rank(a) - rank(b) })
	return rows
}

// merge joins the listeners of rows that are otherwise equal.
func merge(rows [][]string) (merged [][]string) {
	for _, row := range rows {
		i := slices.IndexFunc(merged, func(m []string) bool { return slices.Equal(m[1:], row[1:]) })
		if i < 0 {
			merged = append(merged, slices.Clone(row))
			continue
		}
		merged[i][0] += ", " + row[0]
	}
	return merged
}

// checkSecurityPage checks that the table of the page has all rows, or writes it.
func checkSecurityPage(t *testing.T, rows [][]string) {
	t.Helper()
	page := filetest.Read(t, securityPage)
	var table strings.Builder
	table.WriteString("| listener | attack | what happens | verdict |\n|---|---|---|---|\n")
	for _, row := range rows {
		fmt.Fprintf(&table, "| %s |\n", strings.Join(row, " | "))
	}
	block := regexp.MustCompile(`(?s)(<!-- attacks:[^>]*-->\n).*?(<!-- /attacks -->)`)
	old := block.Find(page)
	switch {
	case old == nil:
		t.Fatalf("%s has no block attacks", securityPage)
	case *update && *allAttacks == "all":
		page = block.ReplaceAllFunc(page, func(b []byte) []byte {
			m := block.FindSubmatch(b)
			return slices.Concat(m[1], []byte(table.String()), m[2])
		})
		filetest.Write(t, securityPage, page)
	case *allAttacks == "all" && bytes.Count(old, []byte(" | open: ")) != strings.Count(table.String(), " | open: "):
		t.Errorf("%s has other open rows: go test ./cmd/llmtap -run TestAttacks -attacks all -update", securityPage)
	}
	for _, row := range rows { // what happens depends on timing in some rows
		if !*update && !bytes.Contains(old, []byte("| "+row[1]+" |")) {
			t.Errorf("%s lacks %s: go test ./cmd/llmtap -run TestAttacks -attacks all -update", securityPage, row[1])
		}
	}
}

// survived checks the collectors after all attacks.
func (w *attackWorld) survived() (rows [][]string) {
	for _, c := range []*target{w.plain, w.secured} {
		verdict, happened := "safe", "/readyz answers 200, a call is stored and found, memory is within the limit, no panic in the log, nothing was reached"
		check := func(err error) {
			if err != nil {
				verdict, happened = "BAD", err.Error()
				w.Error(err)
			}
		}
		check(c.callIsStored(w.T))
		if r := c.up.readiness(); !strings.HasPrefix(r, "ready") {
			check(fmt.Errorf("not ready: %s", r))
		}
		check(c.bounded(w.T))
		if log := c.up.stderr.String(); strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
			check(fmt.Errorf("a panic in the log: %s", log))
		}
		if n := w.canary.hits.Load(); n > 0 {
			check(fmt.Errorf("%d requests have reached what only the collector's machine can reach", n))
		}
		rows = append(rows, []string{"all", "after all attacks", happened, verdict})
	}
	return rows[:1:1]
}

// bounded returns an error if c has used more memory than it may.
func (c *target) bounded(t *testing.T) error {
	t.Helper()
	peak := c.peakMemory(t)
	t.Logf("peak memory %d MiB", peak>>20)
	if peak > attackMemory+attackMargin {
		return fmt.Errorf("peak memory is %d MiB", peak>>20)
	}
	return nil
}

// survives returns what happened, or why c no longer stores calls or has used too much memory.
func (c *target) survives(t *testing.T, happened string) string {
	t.Helper()
	err := c.callIsStored(t)
	if err == nil {
		err = c.bounded(t)
	}
	if err != nil {
		return err.Error()
	}
	return happened
}

// peakMemory returns the largest resident memory of the collector, without its ClickHouse.
func (c *target) peakMemory(t *testing.T) int64 {
	t.Helper()
	kb := must.Get(strconv.ParseInt(procField(filepath.Join("/proc", strconv.Itoa(c.up.cmd.Process.Pid)), "VmHWM"), 10, 64))(t)
	return kb << 10
}

// callIsStored sends the events of a call and waits until they are in ClickHouse.
func (c *target) callIsStored(t *testing.T) error {
	t.Helper()
	id := fmt.Sprintf("after-%d", time.Now().UnixNano())
	body := fmt.Sprintf(`[{"kind":"request","exchange":%q,"service":"after","url":"https://api.openai.com/v1/chat/completions","method":"POST",
		"body":{"model":"gpt-5","messages":[{"role":"user","content":"hello"}]}},
		{"kind":"response","exchange":%q,"service":"after","status":200,"body":{"model":"gpt-5","choices":[]}}]`, id, id)
	resp := c.do(t, "receive", http.MethodPost, "/v1/events", body, http.Header{"Content-Type": {"application/json"}})
	if resp.code != http.StatusOK {
		return fmt.Errorf("POST /v1/events: %d %s", resp.code, resp.body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		res, err := c.rows.query(ctx, "SELECT count() FROM exchanges_final WHERE exchange_id = '"+id+"'")
		if err == nil && res.Rows[0][0].(uint64) == 1 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the call is not stored; the last query: %w", errors.Join(err, ctx.Err()))
		}
		time.Sleep(50 * time.Millisecond)
	}
}
