package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/explain"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// explained runs llmtap explain on file and returns the results.
func explained(t *testing.T, file string) []explain.Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"explain", "--format", "jsonl", file}, nil, &stdout, &stderr, func(string) string { return "" })
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var all []explain.Result
	for d := json.NewDecoder(&stdout); d.More(); {
		var r explain.Result
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// Every public error text has the cause that the analyzer finds, as a record and as a text.
func TestExplainCorpus(t *testing.T) {
	const file = "../../../shared/data/errors.jsonl"
	in, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIPPED: no corpus of error texts: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	got := explained(t, file)
	n, alone := 0, 0
	for d := json.NewDecoder(bufio.NewReader(in)); d.More(); n++ {
		var r struct {
			ID, Provider, Body, API string
			Status                  int
		}
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if n >= len(got) || got[n].ID != r.ID {
			t.Fatalf("%d results; result %d is not %s", len(got), n, r.ID)
		}
		g := &got[n]
		v := explain.Variant(r.Provider, r.API)
		want := cause.Classify(cause.Input{Status: r.Status, Text: []byte(r.Body), Variant: v, Provider: r.Provider})
		if g.Cause != want.ID || g.Class != want.Class || g.Known != want.Known || g.Summary == "" || g.Fix == "" || g.Error != "" || g.Provider == "" {
			t.Errorf("%s: %+v, Classify returns %+v", r.ID, g, want)
		}
		text := &results{}
		if err := explain.New(text).Text("", []byte(r.Body)); err != nil || len(text.all) != 1 {
			t.Fatalf("%s: %v, %d results", r.ID, err, len(text.all))
		}
		if text.all[0].Cause == want.ID {
			alone++
		} else {
			t.Logf("%s (%d): %s as a text, %s as a record: %.150q", r.ID, r.Status, text.all[0].Cause, want.ID, r.Body)
		}
	}
	if n != len(got) || n == 0 {
		t.Errorf("%d records, %d results", n, len(got))
	}
	t.Logf("%d records; %d have the same cause as a text without status and provider", n, alone)
	if alone*100 < n*98 {
		t.Errorf("only %d of %d texts have the cause of their record", alone, n)
	}
}

type results struct{ all []explain.Result }

func (r *results) Print(x *explain.Result) error { r.all = append(r.all, *x); return nil }
func (*results) Close(explain.Counts) error      { return nil }

// Recorded exchanges with an answer have no cause; failed ones have a cause or a cluster.
func TestExplainExchanges(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	f, err := os.Open(exchangesFile)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIPPED: no recorded exchanges: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	got := explained(t, exchangesFile)
	d := json.NewDecoder(z)
	counts := map[string]int{}
	for i := range got {
		var x struct {
			ID     string
			Status int
		}
		if err := d.Decode(&x); err != nil {
			t.Fatal(err)
		}
		g := &got[i]
		counts[strings.TrimSpace(g.Cause+" "+g.Known)]++
		if g.ID != x.ID || g.Error != "" || (x.Status >= 400) != (g.Cause != "") && g.StatedBy == "" {
			t.Errorf("%s, answered %d: %+v", x.ID, x.Status, g)
		}
	}
	t.Log(counts)
	if d.More() {
		t.Errorf("%d results, and more exchanges", len(got))
	}
}

// --unknown lists unexplained wordings of a running llmtap.
func TestExplainUnknown(t *testing.T) {
	needClickHouse(t)
	up := startUp(t)
	sink := up.open(t)
	t.Cleanup(func() { sink.Close() })
	b := sinktest.Rows(0, 8)
	now := time.Now().Truncate(time.Second)
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		e.StartedAt = now.Add(-time.Duration(i+1) * time.Hour)
		e.Failed, e.Cause, e.CauseKnown, e.Status = true, "unexplained", cause.None, 400
		e.Labels.Service = fmt.Sprintf("service-%d", i%2)
		e.ErrorText = fmt.Sprintf("it did not like %d of them", i)
		if i >= 5 {
			e.ErrorText = "so it went"
		}
		e.ErrorCluster = cause.Cluster(e.ErrorText)
	}
	b.Exchanges[0].Cause = "auth"                            // explained
	b.Exchanges[7].StartedAt = now.Add(-30 * 24 * time.Hour) // long ago
	if err := sink.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{"explain", "--unknown", "--data-dir", up.dir}, args...)
		if err := run(t.Context(), args, nil, &stdout, &stderr, func(string) string { return "" }); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, &stderr)
		}
		return stdout.String()
	}
	type row struct {
		Wording     string
		FailedCalls int       `json:"failed_calls"`
		FirstSeen   time.Time `json:"first_seen"`
		LastSeen    time.Time `json:"last_seen"`
		Services    []string
		Example     string `json:"example_text"`
	}
	var rows []row
	for d := json.NewDecoder(strings.NewReader(ask("--format", "jsonl"))); d.More(); {
		var r row
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	ago := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour).UTC() }
	want := []row{
		{"it did not like N of them", 4, ago(5), ago(2), []string{"service-0", "service-1"}, "it did not like 1 of them"},
		{"so it went", 2, ago(7), ago(6), []string{"service-0", "service-1"}, "so it went"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("wordings (-want +got):\n%s", diff)
	}
	if text := ask("--since", "3 hours"); !strings.Contains(text, "it did not like N of them") || strings.Contains(text, "so it went") {
		t.Errorf("last three hours:\n%s", text)
	}
	if text := ask("--since", "90 minutes"); !strings.Contains(text, "(no rows)") {
		t.Errorf("last 90 minutes:\n%s", text)
	}
}
