// Package stored has the shape of a stored exchange and of its findings, which command show, the tools of coding agents and the web
// pages share. Names of fields in JSON are those of columns.
package stored

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// An Exchange is one stored exchange without its messages.
type Exchange struct {
	ID             string    `json:"exchange_id"`
	Conversation   string    `json:"conversation_id"`
	StartedAt      time.Time `json:"started_at"`
	Service        string    `json:"service"`
	ServiceVersion string    `json:"service_version,omitempty"`
	Environment    string    `json:"environment,omitempty"`
	Agent          string    `json:"agent,omitempty"`
	Stage          string    `json:"stage,omitempty"`
	Server         string    `json:"server,omitempty"`
	Path           string    `json:"path,omitempty"`
	Dialect        string    `json:"dialect"`
	Variant        string    `json:"variant"`
	Model          string    `json:"model,omitempty"`
	Status         int       `json:"status"`
	Seconds        float64   `json:"duration"`
	Cause          string    `json:"cause,omitempty"`
	CauseKnown     string    `json:"cause_known,omitempty"`
	RootCause      string    `json:"root_cause,omitempty"`
	ErrorType      string    `json:"error_type,omitempty"`
	ErrorText      string    `json:"error_text,omitempty"` // the provider's words
	InputTokens    int       `json:"input_tokens"`
	OutputTokens   int       `json:"output_tokens"`
	FinishReason   string    `json:"finish_reason,omitempty"`
	Retry          int       `json:"retry,omitempty"`
	Capture        string    `json:"capture"`
	Code           string    `json:"code,omitempty"`  // where in the agent's code the call was made, see event.Code
	User           string    `json:"user,omitempty"`  // as stored: a hash, unless the collector keeps names
	Cache          *Cache    `json:"cache,omitempty"` // nil if the answer does not say what was read from the provider's prompt cache

	TextsDropped string  `json:"texts_dropped,omitempty"` // why the texts were not stored with the call: sampled or quota
	TextsShare   float64 `json:"-"`                       // share of the conversations whose texts are stored
}

// WhyDropped returns why the texts of e were not stored with it, in words; "" if they were.
func (e Exchange) WhyDropped() string {
	switch {
	case e.TextsDropped == "":
		return ""
	case e.TextsDropped == "quota":
		return e.Service + " had stored as many texts as content.sampling allows in an hour"
	case e.TextsShare == 0:
		return "of " + e.Service + ", only conversations in which a call fails or has a finding are stored (content.sampling)"
	}
	share := fmt.Sprintf("%.3g%% are", 100*e.TextsShare)
	if n := math.Round(1 / e.TextsShare); n > 1 && math.Abs(n*e.TextsShare-1) < 0.01 {
		share = fmt.Sprintf("1 in %.0f is", n)
	}
	return fmt.Sprintf("of the conversations of %s, %s stored (content.sampling), and all in which a call fails or has a finding", e.Service, share)
}

// Failed reports whether the call failed.
func (e Exchange) Failed() bool { return e.Cause != "" || e.Status >= 400 || e.Status == 0 }

// Why returns the root cause, or else the cause.
func (e Exchange) Why() string { return cmp.Or(e.RootCause, e.Cause) }

// A Finding is a stored violation or signal.
type Finding struct {
	Rule       string    `json:"rule_id"`
	Severity   string    `json:"severity"`
	Predicted  string    `json:"predicted"`
	Status     int       `json:"status"`
	FirstSeen  time.Time `json:"first_seen"`
	Exchange   string    `json:"exchange_id"`   // the first exchange with the finding
	Message    int       `json:"message_index"` // -1 for the request as a whole
	ToolCallID string    `json:"tool_call_id,omitempty"`
	ToolName   string    `json:"tool_name,omitempty"`
	Summary    string    `json:"summary"`
	RootCause  string    `json:"root_cause,omitempty"`
	Confidence string    `json:"confidence,omitempty"`
	Evidence   string    `json:"evidence,omitempty"`
	Fix        string    `json:"fix,omitempty"`
	Code       string    `json:"code,omitempty"`        // where in the agent's code Exchange was made, see event.Code
	AnswerCode string    `json:"answer_code,omitempty"` // the same of the call whose answer was not kept as it was

	FirstVersion string `json:"first_version,omitempty"`      // first version of the service with the defect, in any conversation
	LastClean    string `json:"last_clean_version,omitempty"` // newest other version with calls before FirstVersion
	CleanCalls   int    `json:"clean_calls,omitempty"`        // a lower bound of these calls; 0 if it is unknown
}

// Breaks reports whether the provider rejects the request because of f.
func (f Finding) Breaks() bool { return f.Severity == "reject" }

// Verdict describes the severity for the sender of the request.
func (f Finding) Verdict() string {
	switch {
	case f.Severity == "signal":
		return "signal"
	case f.Predicted == "reject" && !f.Breaks():
		return "accepted, but would usually be rejected"
	case f.Breaks() && f.Status >= 400:
		return "rejected"
	case f.Breaks():
		return "would be rejected"
	case f.Severity == "lenient":
		return "accepted here, rejected elsewhere"
	default:
		return f.Severity
	}
}

// Guessed returns why calls failed, in words, with the number of these calls of which it is a guess.
func Guessed(why string, guessed, failed int64) string {
	switch {
	case guessed <= 0:
		return why
	case guessed >= failed:
		return "probably " + why
	}
	return fmt.Sprintf("%s (guessed for %s of %s)", why, quantity.Count(guessed), quantity.Plural(failed, "call"))
}
