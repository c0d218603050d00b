package sinks

import (
	"maps"
	"unsafe"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/event"
)

// Bytes estimates the memory that the rows of b hold: the structs and the strings in them.
func (b *Batch) Bytes() int {
	n := 0
	for i := range b.Exchanges {
		e := &b.Exchanges[i]
		n += int(unsafe.Sizeof(*e)) + labelBytes(&e.Labels) + stringBytes(e.ID, e.Conversation, e.Server, e.Path, e.Model,
			e.ResponseModel, e.ErrorType, e.ErrorText, e.ErrorCluster, e.FinishReason, e.Instance, e.ProviderRequestID, e.ResponseID, e.Branch, e.Parameters, e.Answer) +
			(len(e.Lead)+len(e.Marked))*contentBytes
	}
	for i := range b.Findings {
		f := &b.Findings[i]
		n += int(unsafe.Sizeof(*f)) + labelBytes(&f.Labels) + stringBytes(f.ID, f.Fingerprint, f.Exchange, f.Conversation,
			f.Model, f.Rule, f.Detail, f.ToolCallID, f.ToolName, f.Summary, f.Evidence, f.Fix)
	}
	for i := range b.ToolCalls {
		c := &b.ToolCalls[i]
		n += int(unsafe.Sizeof(*c)) + labelBytes(&c.Labels) + stringBytes(c.ID, c.Conversation, c.Exchange, c.CallID, c.Name, c.AnsweredBy)
	}
	for i := range b.Contents {
		c := &b.Contents[i]
		n += int(unsafe.Sizeof(*c)) + stringBytes(c.ID, c.Body)
	}
	for i := range b.History {
		h := &b.History[i]
		n += int(unsafe.Sizeof(*h)) + stringBytes(h.Conversation, h.Branch, h.Content, h.Parent, h.Exchange)
	}
	for i := range b.Runs {
		r := &b.Runs[i]
		n += int(unsafe.Sizeof(*r)) + labelBytes(&r.Labels) + stringBytes(r.ID, r.Status, r.LastExchange, r.LastCause)
	}
	for i := range b.Alerts {
		a := &b.Alerts[i]
		n += int(unsafe.Sizeof(*a)) + stringBytes(a.ID, a.Name, a.FirstBad, a.LastClean, a.Example, a.Summary)
		for k, v := range a.Labels {
			n += len(k) + len(v)
		}
		for k := range a.Shares {
			n += len(k) + 8
		}
	}
	return n
}

// contentBytes is about what a reference to a content takes.
const contentBytes = 64

func labelBytes(l *event.Labels) int {
	return stringBytes(l.Service, l.ServiceVersion, l.Environment, l.Agent, l.Stage, l.Conversation, l.Run, l.User)
}

func stringBytes(ss ...string) int {
	n := 0
	for _, s := range ss {
		n += len(s)
	}
	return n
}

// The tables, and the order in which a sink fills them: a reader who sees an exchange with findings finds them too.
const (
	tableFindings  = "findings"
	tableToolCalls = "tool_calls"
	tableExchanges = "exchanges"
	tableRuns      = "runs"
	tableContents  = "messages"
	tableHistory   = "history"
	tableAlerts    = "alerts"
)

var tables = []string{tableFindings, tableToolCalls, tableContents, tableHistory, tableExchanges, tableRuns, tableAlerts}

// length is the number of rows of a table.
func (b *Batch) length(table string) int {
	switch table {
	case tableFindings:
		return len(b.Findings)
	case tableToolCalls:
		return len(b.ToolCalls)
	case tableExchanges:
		return len(b.Exchanges)
	case tableRuns:
		return len(b.Runs)
	case tableContents:
		return len(b.Contents)
	case tableHistory:
		return len(b.History)
	case tableAlerts:
		return len(b.Alerts)
	}
	return 0
}

// part returns the rows of a table from i to j. They share their memory with b.
func (b *Batch) part(table string, i, j int) *Batch {
	switch table {
	case tableFindings:
		return &Batch{Findings: b.Findings[i:j]}
	case tableToolCalls:
		return &Batch{ToolCalls: b.ToolCalls[i:j]}
	case tableExchanges:
		return &Batch{Exchanges: b.Exchanges[i:j]}
	case tableRuns:
		return &Batch{Runs: b.Runs[i:j]}
	case tableContents:
		return &Batch{Contents: b.Contents[i:j]}
	case tableHistory:
		return &Batch{History: b.History[i:j]}
	case tableAlerts:
		return &Batch{Alerts: b.Alerts[i:j]}
	}
	return &Batch{}
}

// append copies the rows of from to the end of b.
func (b *Batch) append(from *Batch) {
	b.Exchanges = append(b.Exchanges, from.Exchanges...)
	b.Findings = append(b.Findings, from.Findings...)
	b.ToolCalls = append(b.ToolCalls, from.ToolCalls...)
	b.Runs = append(b.Runs, from.Runs...)
	b.Contents = append(b.Contents, from.Contents...)
	b.History = append(b.History, from.History...)
	for _, a := range from.Alerts {
		a.Labels, a.Shares = maps.Clone(a.Labels), maps.Clone(a.Shares) // their owner may change them
		b.Alerts = append(b.Alerts, a)
	}
}

// reset empties b, keeps its slices and lets go of the strings in them.
func (b *Batch) reset() {
	b.Exchanges = emptied[analyzer.Exchange](b.Exchanges)
	b.Findings = emptied[analyzer.Finding](b.Findings)
	b.ToolCalls = emptied[analyzer.ToolCall](b.ToolCalls)
	b.Runs = emptied[analyzer.Run](b.Runs)
	b.Contents = emptied[analyzer.Content](b.Contents)
	b.History = emptied[analyzer.HistoryEntry](b.History)
	b.Alerts = emptied[Alert](b.Alerts)
}

func emptied[T any](s []T) []T {
	clear(s)
	return s[:0]
}
