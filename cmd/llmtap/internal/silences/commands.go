package silences

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// minIDPrefix is the minimum length of an abbreviated id.
const minIDPrefix = 4

// Add adds s and writes its id and how many firing alerts it matches.
func Add(ctx context.Context, c *remote.Client, s silence.Silence, w io.Writer, format string, style *terminal.Style) error {
	var id added
	body := struct {
		Matchers  silence.Matchers `json:"matchers"`
		StartsAt  time.Time        `json:"startsAt"`
		EndsAt    time.Time        `json:"endsAt"`
		CreatedBy string           `json:"createdBy"`
		Comment   string           `json:"comment"`
	}{s.Matchers, s.StartsAt, s.EndsAt, s.CreatedBy, s.Comment}
	if err := c.Call(ctx, http.MethodPost, Path+"silences", nil, body, &id); err != nil {
		return err
	}
	s.ID = id.ID
	firing, err := firingAlerts(ctx, c)
	if err != nil {
		return fmt.Errorf("silence %s was added; %w", s.ID, err)
	}
	now := time.Now()
	x := listed{withStatus(s, now), matched(firing, &s)}
	if format == command.JSON {
		return command.WriteJSON(w, x)
	}
	when := "until " + style.Time(s.EndsAt)
	if x.Status.State == silence.Pending {
		when = fmt.Sprintf("from %s %s", style.Time(s.StartsAt), when)
	}
	text := fmt.Sprintf("Silenced %s: it matches %s.", when, quantity.Plural(x.Matched, "firing alert"))
	fmt.Fprintln(w, style.Wrap("", terminal.Line(text), ""))
	fmt.Fprintf(w, "End it with: llmtap alerts silence expire %s\n", s.ID)
	return nil
}

// A listed silence is a silence in the output of List.
type listed struct {
	Silence
	Matched int `json:"firingAlerts"` // number of firing alerts that it matches
}

// List writes the silences that match the filters, expired ones only if expired is set.
func List(ctx context.Context, c *remote.Client, filters []string, expired bool, w io.Writer, format string, style *terminal.Style) error {
	list, err := all(ctx, c, filters)
	if err != nil {
		return err
	}
	firing, err := firingAlerts(ctx, c)
	if err != nil {
		return err
	}
	out := []listed{}
	for _, s := range list {
		if expired || s.Status.State != silence.Expired {
			out = append(out, listed{s, matched(firing, &s.Silence)})
		}
	}
	switch {
	case format == command.JSON:
		return command.WriteJSON(w, out)
	case len(out) == 0:
		fmt.Fprintln(w, "no silences")
	}
	now := time.Now()
	for i, x := range out {
		if i > 0 {
			fmt.Fprintln(w)
		}
		state, paint := "", style.Dim
		switch x.Status.State {
		case silence.Active:
			state, paint = "ends in "+quantity.Span(x.EndsAt.Sub(now)), style.Green
		case silence.Pending:
			state, paint = fmt.Sprintf("starts in %s, for %s", quantity.Span(x.StartsAt.Sub(now)), quantity.Span(x.EndsAt.Sub(x.StartsAt))), style.Yellow
		case silence.Expired:
			state = "ended " + style.Time(x.EndsAt)
		}
		if x.Status.State != silence.Expired {
			state += ", " + quantity.Plural(x.Matched, "firing alert")
		}
		fmt.Fprintf(w, "%s  %s\n", x.ID, paint(string(x.Status.State)))
		fmt.Fprintln(w, style.Wrap("  ", state, "  "))
		fmt.Fprintln(w, style.Wrap("  ", terminal.Line(x.Matchers.String()), "  "))
		fmt.Fprintln(w, style.Wrap("  ", terminal.Line(x.CreatedBy+": "+x.Comment), "  "))
	}
	return nil
}

// Expire ends the silence whose id begins with prefix.
func Expire(ctx context.Context, c *remote.Client, prefix, actor string, w io.Writer) error {
	list, err := all(ctx, c, nil)
	if err != nil {
		return err
	}
	var found []Silence
	for _, s := range list {
		if s.ID == prefix {
			found = []Silence{s}
			break
		}
		if strings.HasPrefix(s.ID, prefix) && len(prefix) >= minIDPrefix && s.Status.State != silence.Expired {
			found = append(found, s)
		}
	}
	switch {
	case len(found) == 0:
		return fmt.Errorf("no silence %s; llmtap alerts silence list lists them", prefix)
	case len(found) > 1:
		return command.BadInputf("%s is the start of %d ids; give more of it", prefix, len(found))
	case found[0].Status.State == silence.Expired:
		fmt.Fprintf(w, "silence %s has already expired\n", found[0].ID)
		return nil
	}
	if err := c.Call(ctx, http.MethodDelete, Path+"silence/"+url.PathEscape(found[0].ID), nil, nil, nil, remote.HeaderActor, actor); err != nil {
		return err
	}
	fmt.Fprintf(w, "silence %s expired: %s\n", found[0].ID, terminal.Line(found[0].Matchers.String()))
	return nil
}

func all(ctx context.Context, c *remote.Client, filters []string) (list []Silence, err error) {
	err = c.Call(ctx, http.MethodGet, Path+"silences", url.Values{"filter": filters}, nil, &list)
	return list, err
}

// A firingAlert contains the labels of a firing alert, including alertname.
type firingAlert struct {
	Labels map[string]string `json:"labels"`
}

func firingAlerts(ctx context.Context, c *remote.Client) (list []firingAlert, err error) {
	err = c.Call(ctx, http.MethodGet, Path+"alerts", nil, nil, &list)
	return list, err
}

// matched returns the number of alerts that s matches.
func matched(firing []firingAlert, s *silence.Silence) (n int) {
	for _, a := range firing {
		if s.Matches(a.Labels["alertname"], a.Labels) {
			n++
		}
	}
	return n
}

// Elsewhere returns an error that says how to make the silence in Alertmanager, if it is the only receiver of alerts, and
// otherwise a warning, which is empty without Alertmanager.
func Elsewhere(alertmanagers []string, others bool, s *silence.Silence, now time.Time) (warning string, err error) {
	if len(alertmanagers) == 0 {
		return "", nil
	}
	at := "its URL"
	if u, err := url.Parse(alertmanagers[0]); err == nil {
		u.User = nil // may be secret
		at = strings.TrimRight(u.String(), "/")
	}
	switch {
	case others:
		return "Alertmanager is not affected: silence its messages at " + at + "/#/silences", nil
	case s == nil:
		return "", command.BadInputf("silences are made in Alertmanager, which sends the alerts: see %s/#/silences", at)
	}
	args := []string{"amtool", "--alertmanager.url=" + at, "silence", "add", "--comment=" + quote(s.Comment), "--author=" + quote(s.CreatedBy)}
	if s.StartsAt.After(now) {
		args = append(args, "--start="+s.StartsAt.UTC().Format(time.RFC3339))
	}
	args = append(args, "--end="+s.EndsAt.UTC().Format(time.RFC3339))
	for _, m := range s.Matchers {
		args = append(args, quote(m.String()))
	}
	return "", command.BadInputf("silences are made in Alertmanager, which sends the alerts. Run\n  %s\nor open %s/#/silences/new", strings.Join(args, " "), at)
}

// quote quotes text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
