package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/recorded"
)

const importHelp = `Import recorded traffic into a running llmtap: it becomes rows and findings, never counts for alerts, so nobody is
paged for last month. Importing the same file again, or a copy of it, with the same --service and --date changes
nothing. Reads, plain or gzip:

  JSON lines   one exchange a line: {"url":…, "request":…, "status":200, "response":…}. Bodies are JSON, or strings (a
               stream of server-sent events), or base64 with "response_encoding":"base64". Also read: method, time,
               duration_ms, response_headers, error, service, service_version, environment, agent, stage,
               conversation, run_id
  HAR 1.2      the LLM calls in what a browser, mitmproxy or another debugging proxy saved

  llmtap import traffic.jsonl.gz
  llmtap import --service checkout-agent --date 2026-11-20 agent-log.jsonl
  llmtap import --nats-url nats://nats.internal:4222 --clickhouse-dsn clickhouse://llmtap@ch.internal:9000/llmtap *.har
  my-logs | llmtap import --format json -

Then ask, for example: llmtap query --sql "SELECT model, status, cause, count() FROM exchanges_final WHERE origin = 'import' GROUP BY ALL"

Exit code: 0 all imported, 1 it could not be, 2 some input cannot be read (the rest is imported).`

const (
	importConnect = 5 * time.Second // to reach NATS
	// importAhead is how many bytes of bodies an import may be ahead of what is stored, twice: it must not push out of
	// the stream what agents publish meanwhile.
	importAhead     = 64 << 20
	importStall     = time.Minute // without anything being stored
	importComplaint = 20          // records that cannot be read are named, the rest is counted
)

// importReport is what --format json prints.
type importReport struct {
	Files     int                     `json:"files"`
	Records   int                     `json:"records"`   // lines and HAR entries, skipped ones included
	Exchanges int                     `json:"exchanges"` // published, each once
	Skipped   map[recorded.Reason]int `json:"skipped"`
	Broken    int                     `json:"broken_files"` // those that could not be read to their end
	Untimed   int                     `json:"untimed"`      // exchanges that do not say when they were
	Bytes     int64                   `json:"bytes"`        // of their bodies
	Seconds   float64                 `json:"seconds"`      // to read and publish, and to store if that is waited for
	Stored    *uint64                 `json:"stored,omitempty"`
	Findings  map[string]uint64       `json:"findings,omitempty"` // by severity
}

// duplicate is the reason of a record that the import had already.
const duplicate recorded.Reason = "duplicate"

// unreadable counts the records that should have been imported.
func (r *importReport) unreadable() (n int) {
	for reason, k := range r.Skipped {
		if reason != duplicate && reason != recorded.NotLLM {
			n += k
		}
	}
	return n
}

func runImport(ctx context.Context, c *cli) error {
	fs := c.flags("import", importHelp)
	natsURL := fs.String("nats-url", jetstream.Default().URL, "NATS `url` of a running llmtap")
	dataDir := fs.String("data-dir", config.DefaultDataDir(c.getenv), "`directory` of a running llmtap with an embedded ClickHouse")
	dsn := fs.String("clickhouse-dsn", "", "ClickHouse `dsn`; empty: that of --data-dir")
	wait := fs.Bool("wait", true, "wait until all is stored, if ClickHouse can be seen")
	service := fs.String("service", "imported", "`name` of the service of records that name none")
	date := fs.String("date", "", "`day` (2006-01-02, UTC) of records without a time; empty: 1970-01-01")
	format := fs.String("format", "text", "output as `text|json`")
	if err := c.parse(fs); err != nil {
		return err
	}
	files := fs.Args()
	var err error
	cfg := recorded.Config{Service: *service, Instance: uuid.NewString()}
	if *date != "" {
		if cfg.Day, err = time.Parse(time.DateOnly, *date); err != nil {
			return &exitError{exitBadInput, fmt.Errorf("date: %q is not like 2006-01-02", *date)}
		}
	}
	switch {
	case len(files) == 0:
		return &exitError{exitBadInput, errors.New("which files? - is standard input; see llmtap import --help")}
	case *format != "text" && *format != "json":
		return &exitError{exitBadInput, fmt.Errorf("format: %q is none of text, json", *format)}
	}
	conn, err := connectCollector(ctx, *natsURL)
	if err != nil {
		return err
	}
	defer conn.Close()
	im := &importer{cfg: cfg, pub: conn.NewPublisher(0), seen: map[uuid.UUID]struct{}{}, stdin: c.stdin, progress: newProgress(c.stderr)}
	im.report.Skipped = map[recorded.Reason]int{}
	if *wait {
		sink, err := openStore(ctx, *dsn, *dataDir)
		switch {
		case err == nil:
			defer func() { _ = sink.Close() }() // only read
			im.sink = sink
		case *dsn != "":
			return err
		default:
			im.progress.say("not waiting until all is stored: %v", err)
		}
	}
	err = im.run(ctx, files)
	if printErr := im.report.print(c.stdout, *format); err == nil {
		err = printErr
	}
	switch {
	case err != nil:
		return err
	case im.report.unreadable() > 0 || im.report.Broken > 0:
		return &exitError{code: exitBadInput}
	}
	return nil
}

// connectCollector reaches the NATS of a running llmtap.
func connectCollector(ctx context.Context, url string) (*jetstream.Conn, error) {
	cfg := jetstream.Default()
	cfg.URL = url
	if err := cfg.Validate(); err != nil {
		return nil, &exitError{exitBadInput, fmt.Errorf("nats-%w", err)}
	}
	within, cancel := context.WithTimeout(ctx, importConnect)
	defer cancel()
	conn, err := jetstream.Connect(within, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("%w; start llmtap up, or say where it runs with --nats-url", err)
	}
	// Without the stream every message would be sent again for ever.
	if _, err := conn.KV(within, event.BucketCheckpoint); err != nil {
		conn.Close()
		return nil, fmt.Errorf("this NATS has no streams of llmtap: %w; start llmtap up on it first", err)
	}
	return conn, nil
}

func (r *importReport) print(w io.Writer, format string) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(r)
	}
	mb := float64(r.Bytes) / 1e6
	fmt.Fprintf(w, "%d exchanges of %d records imported: %.1f MB in %.1f s (%.1f MB/s)\n", r.Exchanges, r.Records, mb, r.Seconds, mb/max(r.Seconds, 1e-3))
	for _, k := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(w, "  skipped  %6d  %s\n", r.Skipped[k], k)
	}
	if r.Broken > 0 {
		fmt.Fprintf(w, "  files that could not be read to their end: %d\n", r.Broken)
	}
	if r.Untimed > 0 {
		fmt.Fprintf(w, "  without a time of their own: %d; --date says of which day they are\n", r.Untimed)
	}
	if r.Stored != nil {
		fmt.Fprintf(w, "  stored: %d, with findings:", *r.Stored)
		if len(r.Findings) == 0 {
			fmt.Fprint(w, " none")
		}
		for _, k := range slices.Sorted(maps.Keys(r.Findings)) {
			fmt.Fprintf(w, " %d %s", r.Findings[k], k)
		}
		fmt.Fprintln(w)
	}
	return nil
}

// progress writes what happens to standard error: on a terminal also a line that shows how far it is.
type progress struct {
	w     io.Writer
	live  bool
	next  time.Time
	shown bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) say(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// show replaces the line on a terminal, a few times a second.
func (p *progress) show(r *importReport, stored uint64) {
	if now := time.Now(); p.live && now.After(p.next) {
		p.next, p.shown = now.Add(200*time.Millisecond), true
		fmt.Fprintf(p.w, "\r\x1b[K%d exchanges, %.1f MB, %d stored", r.Exchanges, float64(r.Bytes)/1e6, stored)
	}
}

func (p *progress) clear() {
	if p.shown {
		p.shown = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
