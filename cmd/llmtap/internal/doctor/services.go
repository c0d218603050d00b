package doctor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// maxServices is the maximum number of services that are listed.
const maxServices = 20

// checkServices reports how the calls of each service arrived in the last hour, and what llmtap cannot see of them.
func (c *checker) checkServices(ctx context.Context, cfg clickhouse.Config) {
	sources, err := readSources(ctx, cfg, c)
	if err != nil {
		c.warn("services", "see the check of ClickHouse", "%v", err)
		return
	}
	for _, services := range c.uncaptured {
		for service := range services {
			if _, recorded := sources[service]; !recorded {
				sources[service] = nil
			}
		}
	}
	names := slices.Sorted(maps.Keys(sources))
	if len(names) == 0 {
		c.warn("services", "add a hook to an agent, or set its base URL to llmtap's proxy", "no calls in the last hour")
	}
	for _, name := range names[:min(len(names), maxServices)] {
		c.describeService(name, sources[name])
	}
	if more := len(names) - maxServices; more > 0 {
		c.ok("services", "%s more: llmtap query services", quantity.Plural(more, "service"))
	}
}

// readSources returns the rows of the query services by service.
func readSources(ctx context.Context, cfg clickhouse.Config, c *checker) (map[string][]rows.Row, error) {
	q, err := queries.Get("services")
	if err != nil {
		return nil, err
	}
	sql, params, err := q.Bind(queries.Values{"limit": {"1000"}}, c.now)
	if err != nil {
		return nil, err
	}
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("read the services: %w", err)
	}
	defer func() { _ = sink.Close() }() // used for reading only
	list, err := rows.Read(ctx, sink, "the services", sql, params)
	if err != nil {
		return nil, err
	}
	sources := map[string][]rows.Row{}
	for _, r := range list {
		sources[r.Text("service")] = append(sources[r.Text("service")], r)
	}
	return sources, nil
}

// describeService adds a result for each way in which the calls of a service arrived.
func (c *checker) describeService(name string, sources []rows.Row) {
	missing := c.missing(name)
	if len(sources) == 0 {
		c.warn("services", "see the check of capture", "%s: no recorded calls%s", name, missing)
		return
	}
	for i, r := range sources {
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s, %s", name, way(r), quantity.Plural(r.Int("calls"), "call"))
		if n := r.Int("processes"); n > 1 {
			fmt.Fprintf(&b, " of %d processes", n)
		}
		fmt.Fprintf(&b, ", the newest %s ago", age(max(c.now.Sub(r.Time("newest_at")), 0)))
		blind(&b, r)
		if i == 0 {
			b.WriteString(missing)
		}
		if i == 0 && missing != "" {
			c.warn("services", "see the checks of capture and losses", "%s", &b)
		} else {
			c.ok("services", "%s", &b)
		}
	}
}

// way returns the way in which calls arrived, such as "hook python/0.1.0".
func way(r rows.Row) string {
	names := map[string]string{"": "hook", event.OriginHTTP: "HTTP endpoint", event.OriginOTLP: "OpenTelemetry"}
	origin := r.Text("origin")
	if name, ok := names[origin]; ok {
		origin = name
	}
	return strings.TrimSpace(origin + " " + r.Text("sdk"))
}

// missing describes the calls of a service that were not recorded in the last hour.
func (c *checker) missing(service string) string {
	var b strings.Builder
	for _, transport := range slices.Sorted(maps.Keys(c.uncaptured)) {
		if n := c.uncaptured[transport][service]; n > 0 {
			fmt.Fprintf(&b, "; not recorded: %s %d", uncapturedTexts[transport].calls, n)
		}
	}
	if n := c.dropped[service]; n > 0 {
		fmt.Fprintf(&b, "; %d dropped", n)
	}
	return b.String()
}

// blind appends what llmtap cannot see of the calls of a source.
func blind(b io.Writer, r rows.Row) {
	calls := r.Int("calls")
	if slices.Contains(r.Texts("bodies"), event.CaptureNone) {
		fmt.Fprint(b, "; calls without bodies (capture none) have no findings")
	}
	if n := r.Int("degraded"); n > 0 {
		fmt.Fprintf(b, "; %s incomplete, so missing parts are not reported", portion(n, calls))
	}
	if n := r.Int("without_id"); n > 0 {
		fmt.Fprintf(b, "; %s without a conversation id, so fewer root causes are found", portion(n, calls))
	}
}

// portion returns n of all as a text.
func portion(n, all int) string {
	if n >= all {
		return "all"
	}
	return fmt.Sprintf("%d", n)
}
