package problems

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

// List writes the problems that match f; closed ones only if all is set or f names states.
func List(ctx context.Context, api API, f Filter, all bool, w io.Writer, format string, style *terminal.Style) error {
	list, err := api.List(ctx, f)
	if err != nil {
		return err
	}
	found := len(list)
	if !all && len(f.State) == 0 {
		list = slices.DeleteFunc(list, func(p Problem) bool { return Closed(p.State) })
	}
	if format == command.JSON {
		return command.WriteJSON(w, list)
	}
	now := time.Now()
	fmt.Fprintln(w, style.Wrap("", Summary(list, found-len(list), "llmtap problems list --all"), ""))
	length := idLength(list)
	for i := range list {
		p := &list[i]
		fmt.Fprintf(w, "\n%s  %s  %s\n", p.ID[:length], paint(style, p.State), style.Wrap("", terminal.Clip(p.Severity, maxSeverity)+"  "+place(p), ""))
		fmt.Fprintln(w, style.Wrap("  ", terminal.Line(p.Meaning), "  "))
		fmt.Fprintln(w, style.Wrap("  ", Facts(p, now), "  "))
	}
	return nil
}

// idLength returns the number of characters by which the ids of a list differ, at least shortID.
func idLength(list []Problem) int {
	n := shortID
	for i := range list {
		for j := range i {
			for n < len(list[i].ID) && list[i].ID[:n] == list[j].ID[:n] {
				n++
			}
		}
	}
	return n
}

// Show writes the problem whose id begins with prefix.
func Show(ctx context.Context, api API, prefix string, w io.Writer, format string, style *terminal.Style) error {
	id, err := Find(ctx, api, prefix)
	if err != nil {
		return err
	}
	d, err := api.Get(ctx, id)
	if err != nil {
		return err
	}
	if format == command.JSON {
		return command.WriteJSON(w, d)
	}
	p, now := &d.Problem, time.Now()
	fmt.Fprintf(w, "%s  %s  %s\n", style.Bold(place(p)), paint(style, p.State), terminal.Clip(p.Severity, maxSeverity))
	fmt.Fprintln(w, style.Wrap("", terminal.Line(p.Meaning), ""))
	fmt.Fprintln(w)
	for _, f := range Fields(&d, now, style) {
		name := terminal.Pad(f.Name, fieldWidth)
		fmt.Fprintln(w, style.Wrap("  "+name, f.Text, strings.Repeat(" ", 2+fieldWidth)))
	}
	fmt.Fprintln(w, "\n"+style.Bold("History"))
	for _, line := range History(&d, style) {
		fmt.Fprintln(w, style.Wrap("  ", line, "    "))
	}
	return nil
}

// Decide stores what actor decides about the problem whose id begins with prefix, and writes its state.
func Decide(ctx context.Context, c Client, prefix string, d alerts.ProblemDecision, actor string, w io.Writer, format string, style *terminal.Style) error {
	id, err := Find(ctx, c, prefix)
	if err != nil {
		return err
	}
	p, err := c.Decide(ctx, id, d, alerts.Actor{ID: actor})
	if err != nil {
		return err
	}
	if format == command.JSON {
		return command.WriteJSON(w, p)
	}
	about := fmt.Sprintf("Problem %s of %s", p.ID[:shortID], place(&p))
	var what, undo string
	switch d.Action {
	case alerts.ActionAssign:
		what, undo = "is assigned to "+p.Assignee, "llmtap problems assign "+p.ID[:shortID]+" "+Nobody
		if p.Assignee == "" {
			what, undo = "is assigned to nobody", ""
		}
	case alerts.ActionResolve:
		what, undo = "is resolved. Any further failure is a regression", "llmtap problems reopen "+p.ID[:shortID]
		if d.Version != "" {
			what = fmt.Sprintf("is resolved, fixed in %s. A failure in this version or a later one is a regression", d.Version)
		}
	case alerts.ActionIgnore:
		what, undo = "is ignored "+ignored(p.Ignored, time.Now(), style)+": nobody is notified of it", "llmtap problems reopen "+p.ID[:shortID]
	case alerts.ActionAccept:
		what = "is the new normal: what is usual follows in a minute, and its alert ends"
	case alerts.ActionReopen:
		what = "is open again: " + p.State
	case alerts.ActionAcknowledge:
		what = "is acknowledged: there are no reminders until a new incident"
	}
	fmt.Fprintln(w, style.Wrap("", terminal.Line(about+" "+what+"."), ""))
	if undo != "" {
		fmt.Fprintf(w, "Undo it with: %s\n", undo)
	}
	return nil
}
