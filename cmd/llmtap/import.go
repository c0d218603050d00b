package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/recorded"
)

var importCommand = &command.Command{
	Name:  "import",
	Args:  "[FILE]...",
	Short: "Import recorded traffic: store and judge it, without alerts",
	Long: `Publishes recorded exchanges to a running llmtap. Imports never count in tallies,
so they trigger no alerts. Importing a file, or a copy of it, again with the same
--service and --date changes nothing. Reads, plain or gzip:

  JSON lines  one exchange per line:
              {"url":…, "request":…, "status":200, "response":…}
              Bodies are JSON, strings (such as server-sent events), or base64
              with "response_encoding":"base64". Optional: method, time,
              duration_ms, response_headers, error, service, service_version,
              environment, agent, stage, conversation, run_id
  HAR 1.2     the LLM calls saved by a browser, mitmproxy or another proxy

Exit code: 0 if everything was imported, 1 on failure, 2 if some input is
unreadable (the rest is imported).`,
	Examples: `  llmtap import traffic.jsonl.gz
  llmtap import --service checkout-agent --date 2026-11-20 agent-log.jsonl
  llmtap import --nats-url nats://nats.internal:4222 *.har
  my-logs | llmtap import --format json -
  llmtap query --sql "SELECT cause, count() FROM exchanges_final
    WHERE origin = 'import' GROUP BY ALL"`,
	Run: runImport,
}

const (
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

func runImport(ctx context.Context, c *command.Call) error {
	service := c.Parameters.String("service", "imported", "service `name` of records that contain none")
	date := c.Parameters.String("date", "", "`day` (2006-01-02, UTC) of records without a time; empty: 1970-01-01")
	wait := c.Flags.Bool("wait", true, "wait until everything is stored, if ClickHouse is reachable")
	flags := serverFlags(c, "nats.url")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	var err error
	cfg := recorded.Config{Service: *service, Instance: uuid.NewString()}
	if *date != "" {
		if cfg.Day, err = time.Parse(time.DateOnly, *date); err != nil {
			return command.BadInputf("date: %q is not like 2006-01-02", *date)
		}
	}
	if len(c.Args) == 0 {
		return command.BadInputf("no input files (use - for standard input)")
	}
	servers, err := flags.Load()
	if err != nil {
		return err
	}
	conn, err := connectNATS(ctx, servers)
	if err != nil {
		return err
	}
	defer conn.Close()
	im := &importer{cfg: cfg, pub: conn.NewPublisher(0), seen: map[uuid.UUID]struct{}{}, stdin: c.Stdin, progress: newProgress(c.Stderr)}
	im.report.Skipped = map[recorded.Reason]int{}
	if *wait {
		sink, err := openClickHouse(ctx, servers)
		switch {
		case err == nil:
			defer func() { _ = sink.Close() }() // only read
			im.sink = sink
		case servers.ClickHouse.DSN != "":
			return err
		default:
			im.progress.say("not waiting until all is stored: %v", err)
		}
	}
	err = im.run(ctx, c.Args)
	if printErr := im.report.print(c.Stdout, *format); err == nil {
		err = printErr
	}
	switch {
	case err != nil:
		return err
	case im.report.unreadable() > 0 || im.report.Broken > 0:
		return &command.ExitError{Code: command.ExitBadInput}
	}
	return nil
}

func (r *importReport) print(w io.Writer, format string) error {
	if format == "json" {
		return command.WriteJSON(w, r)
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
