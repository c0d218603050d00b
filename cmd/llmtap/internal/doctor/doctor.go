// Package doctor checks an installation and reports what is wrong and how to fix it. It changes nothing.
//
//	configuration and its files ─> running process ─> NATS: streams, clock, backlog, tallies, losses, dead letters
//	                                 └> disk ─> ClickHouse: schema, services ─> rule files ─> receivers of alerts
//
// Each check adds one or more results. A check whose prerequisite fails is skipped.
package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Statuses of a result.
const (
	OK   = "ok"
	Warn = "warn" // works, but needs attention
	Fail = "fail" // does not work
)

// A Result is the result of one check.
type Result struct {
	Check  string `json:"check"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// A Report contains the results of all checks.
type Report struct {
	Checks []Result `json:"checks"`
	Status string   `json:"status"` // the worst status
}

const (
	runTimeout   = 30 * time.Second // timeout of all checks together
	checkTimeout = 5 * time.Second  // timeout of the response of one server
)

// A checker runs the checks.
type checker struct {
	cfg     *config.Effective
	report  Report
	process collector.Running // the process that uses the data directory
	running bool
	now     time.Time

	dropped    map[string]uint64            // exchanges in the last hour, by service
	uncaptured map[string]map[string]uint64 // calls in the last hour, by transport and service
}

// Run checks the installation that cfg configures.
func Run(ctx context.Context, cfg *config.Effective) *Report {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	c := newChecker(cfg, time.Now())
	c.checkConfig()
	c.checkCertificates()
	c.checkProcess(ctx)
	c.checkUserKey()
	c.checkReceive(ctx)
	if n, ok := connect.NATS(cfg); ok {
		c.checkNATS(ctx, n)
	}
	c.checkDisk()
	c.checkClickHouse(ctx)
	c.checkRules(ctx)
	c.checkReceivers(ctx)
	c.checkTraces(ctx)
	return &c.report
}

func newChecker(cfg *config.Effective, now time.Time) *checker {
	return &checker{cfg: cfg, report: Report{Status: OK}, now: now}
}

// Invalid returns a report with the errors of an invalid configuration.
func Invalid(err error) *Report {
	c := newChecker(nil, time.Now())
	_, list, several := strings.Cut(err.Error(), "\n")
	if !several {
		list = err.Error()
	}
	for line := range strings.SplitSeq(list, "\n") {
		c.fail("config", "", "%s", line)
	}
	return &c.report
}

func (c *checker) ok(check, format string, args ...any) {
	c.add(Result{Check: check, Status: OK, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) warn(check, fix, format string, args ...any) {
	c.add(Result{check, Warn, fmt.Sprintf(format, args...), fix})
}

func (c *checker) fail(check, fix, format string, args ...any) {
	c.add(Result{check, Fail, fmt.Sprintf(format, args...), fix})
}

func (c *checker) add(r Result) {
	c.report.Checks = append(c.report.Checks, r)
	if r.Status == Fail || r.Status == Warn && c.report.Status == OK {
		c.report.Status = r.Status
	}
}

// Write writes the report as text or json.
func (r *Report) Write(w io.Writer, format string, style *terminal.Style) error {
	if format == "json" {
		return json.NewEncoder(w).Encode(r)
	}
	const indent = "                    " // of the details
	paint := map[string]func(string) string{OK: style.Green, Warn: style.Yellow, Fail: style.Red}
	var b strings.Builder
	for _, c := range r.Checks {
		head := paint[c.Status](fmt.Sprintf("%-4s", c.Status)) + fmt.Sprintf("  %-14s", c.Check)
		b.WriteString(style.Wrap(head, c.Detail, indent) + "\n")
		if c.Fix != "" {
			b.WriteString(style.Wrap(indent+style.Bold("fix:")+" ", c.Fix, indent+"     ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// age formats a duration.
func age(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d < time.Minute:
		return config.FormatDuration(d.Round(time.Second))
	}
	return config.FormatDuration(d.Round(time.Minute))
}

// maxRanking is the maximum number of names in a ranking.
const maxRanking = 5

// ranking formats counts, largest first.
func ranking(counts map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, n := range names[:min(len(names), maxRanking)] {
		parts = append(parts, fmt.Sprintf("%s %d", n, counts[n]))
	}
	if more := len(names) - maxRanking; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// embedded returns the names of the servers that are embedded in llmtap up, or "".
func (c *checker) embedded() string {
	switch {
	case c.cfg.NATS.URL == "" && c.cfg.ClickHouse.DSN == "":
		return "NATS and ClickHouse"
	case c.cfg.NATS.URL == "":
		return "NATS"
	case c.cfg.ClickHouse.DSN == "":
		return "ClickHouse"
	}
	return ""
}

// checkProcess reports whether the process that uses the data directory is ready.
func (c *checker) checkProcess(ctx context.Context) {
	p, err := collector.FindRunning(c.cfg.DataDir)
	c.process, c.running = p, err == nil
	denied, isDenied := errors.AsType[*config.PermissionError](err)
	switch {
	case isDenied:
		c.fail("collector", "run llmtap doctor as the user that runs llmtap", "%v", denied)
		return
	case !c.running && c.embedded() != "":
		other := ""
		if url := config.LocalURL(c.cfg.Listen, c.cfg.TLS.Enabled()); connect.Answers(ctx, c.cfg, url) {
			other = "; another llmtap answers at " + url
		}
		c.fail("collector", "run llmtap up, or run llmtap doctor as the user of the running process, with its --config or --data-dir",
			"llmtap is not running on %s, so its embedded %s cannot be checked%s", c.cfg.DataDir, c.embedded(), other)
		return
	case !c.running:
		c.ok("collector", "none runs on %s; it may run elsewhere", c.cfg.DataDir)
		return
	}
	about := fmt.Sprintf("process %d (%s), up for %s", p.PID, strings.Join(p.Roles, ", "), age(c.now.Sub(p.Since)))
	text, err := c.ready(ctx)
	if err != nil {
		c.fail("collector", "see the checks below and its log", "%s, is not ready: %v", about, err)
	} else {
		c.ok("collector", "%s, is ready; %s/metrics", about, p.URL())
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, collector.Undelivered) {
			c.fail("notifications", "", "%s", strings.TrimSpace(line)) // with advice
		}
	}
}

// ready requests /readyz from the running process and returns the answer, also as an error if it is not ready.
func (c *checker) ready(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	res, err := c.get(ctx, "/readyz")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return string(body), errors.New(strings.TrimSpace(string(body)))
	}
	return string(body), nil
}

// get requests a path from the running process. The caller must close the body.
func (c *checker) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.process.URL()+path, nil)
	if err != nil {
		return nil, err
	}
	if tokens, err := secret.ReadTokens(c.cfg.HTTP.Token, "http.token_file", c.cfg.HTTP.TokenFile); err == nil && tokens.Plain() != "" {
		req.Header.Set("Authorization", "Bearer "+tokens.Plain())
	}
	return c.send(req)
}

// send sends a request to the running process.
func (c *checker) send(req *http.Request) (*http.Response, error) {
	client := http.DefaultClient
	if c.process.CertFile != "" {
		cfg, err := c.cfg.HTTP.Client().Config(c.process.CertFile)
		if err != nil {
			return nil, err
		}
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
	}
	return client.Do(req)
}
