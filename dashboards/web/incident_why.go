package web

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/dashboards/differs"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// A change is what is known of the first failure.
type change struct {
	FirstBad, LastClean string
	First               Time   // failure
	Example             string // exchange of the first failure
	VersionURL          string // calls of FirstBad
	Versions            []versionHit
	Changes             []changeRow
}

// Several reports whether the versions are of several services.
func (c *change) Several() bool {
	return slices.ContainsFunc(c.Versions, func(v versionHit) bool { return v.Service != c.Versions[0].Service })
}

// A versionHit is a version with calls in the time range.
type versionHit struct {
	Service, Version string
	Hits, Calls      int64
	Began            Time
	URL              string // this incident in this version
}

// A changeRow is a change of a stage near the first failure.
type changeRow struct {
	At     Time
	Change string
	Delay  string // until the first failure
}

// changeBefore is the time before the first failure in which changes are listed.
const changeBefore = 6 * time.Hour

// change returns the first failure with its versions, and the changes shortly before it.
func (s incidentPage) change(ctx context.Context, x *incident) (*change, error) {
	v := x.view
	since := v.Now.Add(-7 * 24 * time.Hour)
	if v.From.Before(since) {
		since = v.From
	}
	values := x.with("since", since.Format(time.RFC3339Nano))
	var versions, occurrences, ledger []stored.Row
	var err, occurrencesErr, ledgerErr error
	var all sync.WaitGroup
	all.Go(func() { versions, err = s.query(ctx, "incident_versions", x.hits(), v.Now) })
	if len(x.Rules) == 0 {
		all.Go(func() { occurrences, occurrencesErr = s.query(ctx, "first_occurrence", values, v.Now) })
	}
	all.Go(func() { ledger, ledgerErr = s.query(ctx, "whose_change", values, v.Now) })
	all.Wait()
	out := &change{FirstBad: x.known.FirstBad, LastClean: x.known.LastClean, First: x.known.First}
	for _, r := range versions {
		out.Versions = append(out.Versions, versionHit{r.Text("service"), r.Text("version"), r.Int64("hits"), r.Int64("calls"), v.At(r.Time("began")), v.Here("version", r.Text("version"))})
	}
	if err != nil && out.FirstBad == "" {
		return nil, err
	}
	found := false
	if len(x.Rules) == 0 {
		if occurrencesErr != nil && out.FirstBad == "" {
			return nil, occurrencesErr
		}
		rows := slices.DeleteFunc(occurrences, func(r stored.Row) bool {
			return x.Why != "" && r.Text("cause") != x.Why && r.Text("root_cause") != x.Why
		})
		if len(rows) > 0 {
			r := slices.MinFunc(rows, func(a, b stored.Row) int { return a.Time("first_seen").Compare(b.Time("first_seen")) })
			found = true
			out.Example = r.Text("first_exchange_id")
			if out.First.IsZero() || out.FirstBad == "" {
				out.First = v.At(r.Time("first_seen"))
			}
			if out.FirstBad == "" {
				out.FirstBad, out.LastClean = r.Text("first_version"), r.Text("last_clean_version")
			}
		}
	}
	if ledgerErr == nil { // otherwise the versions of the rows are shown
		rows := slices.DeleteFunc(ledger, func(r stored.Row) bool {
			known := slices.Contains(x.Rules, r.Text("rule_id"))
			if len(x.Rules) == 0 {
				known = r.Int64("failed_calls") > 0 && (x.Why == "" || r.Text("root_cause") == x.Why || r.Text("failed_with_cause") == x.Why)
			}
			return !known || r.Text("first_version") == ""
		})
		if len(rows) > 0 {
			r := rows[0] // the most failed calls
			version, clean := r.Text("first_version"), r.Text("last_clean_version")
			if version == out.FirstBad {
				clean = cmp.Or(clean, out.LastClean) // the rows may prove more
			}
			out.FirstBad, out.LastClean = version, clean
			if at := r.Time("since_when"); out.First.IsZero() || at.Before(out.First.T) {
				out.First = v.At(at)
			}
			out.Example = cmp.Or(out.Example, r.Text("first_exchange_id"))
			found = true
		}
	}
	if out.FirstBad != "" {
		out.VersionURL = v.With("/", "service", first(x.values["service"]), "stage", first(x.values["stage"]), "version", out.FirstBad)
	}
	if !found || out.First.IsZero() {
		return out, nil
	}
	values = x.with("since", out.First.T.Add(-changeBefore).Format(time.RFC3339Nano), "until", out.First.T.Add(10*time.Minute).Format(time.RFC3339Nano))
	delete(values, "version") // a filter by version would hide its change
	rows, err := s.query(ctx, "what_changed", values, v.Now)
	if err != nil {
		return out, nil // the changes are a help only
	}
	for _, r := range rows {
		at := r.Time("changed_at")
		if at.After(out.First.T.Add(10*time.Second)) || len(out.Changes) == 8 {
			continue
		}
		out.Changes = append(out.Changes, changeRow{v.At(at), r.Text("change"), quantity.Span(out.First.T.Sub(at))})
	}
	return out, nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// differences are what the calls of an incident have in common, and others not.
type differences struct {
	*differs.Result
	Hit   string // name of the calls
	Rows  []difference
	Small bool // few hits: only large differences are certain
}

// A difference is a part of the calls.
type difference struct {
	differs.Part
	Values           []differentValue
	HitBar, OtherBar float64 // percent
	HitShare, Other  string  // percent, in words
}

// A differentValue is a condition of a difference.
type differentValue struct {
	Attribute, Value string
	URL              string // this incident with a filter; empty if there is no such filter
}

// smallSample is the number of hits below which the page warns.
const smallSample = 20

// differs compares the calls of an incident with the others of the same stage and time.
func (s incidentPage) differs(ctx context.Context, x *incident) (*differences, error) {
	values := x.hits()
	if m := x.measured; m != nil && m.hits() {
		values["hits_since"] = []string{m.since.Format(time.RFC3339Nano)} // before, such calls were usual
	}
	rows, err := s.query(ctx, differs.Query, values, x.view.Now)
	if err != nil {
		return nil, err
	}
	out := &differences{Result: differs.Of(rows), Hit: x.Hit()}
	out.Small = out.SomeHits < smallSample
	for _, p := range out.Parts {
		d := difference{Part: p}
		d.HitShare, d.HitBar = quantity.Share(p.Hits, out.SomeHits), 100*float64(p.Hits)/float64(out.SomeHits)
		d.Other, d.OtherBar = quantity.Share(p.Others, out.SomeOthers), 100*float64(p.Others)/float64(out.SomeOthers)
		for _, c := range p.Conditions {
			v := differentValue{Attribute: c.Attribute, Value: c.Value}
			key, isAttribute := strings.CutPrefix(c.Attribute, "attribute ")
			switch {
			case isAttribute:
				v.Attribute, v.URL = key, x.view.Here("attr", key+"="+c.Value)
			case slices.Contains(filterNames, c.Attribute):
				v.URL = x.view.Here(c.Attribute, c.Value)
			}
			d.Values = append(d.Values, v)
		}
		out.Rows = append(out.Rows, d)
	}
	return out, nil
}

// A proof is what the provider answered, and what is wrong in the request.
type proof struct {
	Example
	Number int64 // calls with this wording
	Words  string
	Raw    string // the whole error text, if Words is a part of it
}

// An Example is a call, and the finding about it.
type Example struct {
	Exchange, Conversation, Provider, Model, RequestID string
	At                                                 Time
	Status                                             int64
	Rule, Summary, Evidence, RootCause, Confidence     string
	Fix                                                string
	Version, Code, AnswerCode                          string // of the service; where in its code the calls were made
	Call                                               string // id of the tool call
	Message                                            int64  // index; -1 if the finding concerns no message
}

// examples are calls that an incident hits.
type examples struct {
	Proofs []proof           // with different wordings of the error
	More   []conversationHit // further ones, if the wordings are few
}

// minExamples is the number of examples that are shown, if there are so many.
const minExamples = 3

func (s incidentPage) examples(ctx context.Context, x *incident) (*examples, error) {
	proofs, err := s.proof(ctx, x)
	if err != nil || len(proofs) == 0 || len(proofs) >= minExamples {
		return &examples{Proofs: proofs}, err
	}
	hit, err := s.conversations(ctx, x)
	if err != nil {
		return &examples{Proofs: proofs}, nil // they are a help only
	}
	more := slices.DeleteFunc(hit.Rows, func(c conversationHit) bool {
		return slices.ContainsFunc(proofs, func(p proof) bool { return p.Conversation == c.ID })
	})
	return &examples{Proofs: proofs, More: more[:min(len(more), minExamples-len(proofs))]}, nil
}

func (s incidentPage) proof(ctx context.Context, about *incident) ([]proof, error) {
	rows, err := s.query(ctx, "incident_examples", about.hits(), about.view.Now)
	if err != nil {
		return nil, err
	}
	var out []proof
	for _, r := range rows {
		x := proof{
			Example: Example{
				Exchange: r.Text("exchange_id"), Conversation: r.Text("conversation_id"), Provider: r.Text("provider"), Model: r.Text("model"),
				RequestID: r.Text("provider_request_id"), At: about.view.At(r.Time("started_at")), Status: r.Int64("status"), Rule: r.Text("rule_id"),
				Summary: r.Text("summary"), Evidence: r.Text("evidence"), RootCause: s.meaning(r.Text("root_cause")), Confidence: r.Text("confidence"),
				Fix: r.Text("fix"), Call: r.Text("tool_call_id"), Message: r.Int64("message_index"),
				Version: r.Text("service_version"), Code: r.Text("code"), AnswerCode: r.Text("answer_code"),
			},
			Number: r.Int64("n"), Words: r.Text("error_text"),
		}
		if s.incidents != nil {
			if words := s.incidents.ProviderMessage(x.Words); words != x.Words {
				x.Words, x.Raw = words, x.Words
			}
		}
		out = append(out, x)
	}
	return out, nil
}

// conversations are the conversations that an incident hit.
type conversationsHit struct {
	Conversations, Recovered, Users int64
	Rows                            []conversationHit
}

// A conversationHit is one of them.
type conversationHit struct {
	ID, User, Version, Exchange string
	Hits                        int64
	Last                        Time
	Recovered                   bool
}

func (s incidentPage) conversations(ctx context.Context, x *incident) (*conversationsHit, error) {
	rows, err := s.query(ctx, "incident_conversations", x.hitsNow(), x.view.Now)
	if err != nil {
		return nil, err
	}
	out := &conversationsHit{}
	for _, r := range rows {
		out.Conversations, out.Recovered, out.Users = r.Int64("conversations"), r.Int64("all_recovered"), r.Int64("users")
		out.Rows = append(out.Rows, conversationHit{
			ID: r.Text("conversation_id"), User: r.Text("user_hash"), Version: r.Text("last_version"), Exchange: r.Text("last_id"), Hits: r.Int64("hits"),
			Last: x.view.At(r.Time("last_hit")), Recovered: r.Int64("recovered") > 0,
		})
	}
	return out, nil
}

// scope are the filters and the time of x, as in View.With.
func (x *incident) scope() []string {
	return []string{
		"service", first(x.values["service"]), "stage", first(x.values["stage"]), "environment", first(x.values["environment"]),
		"provider", first(x.values["provider"]), "from", x.view.From.Format(time.RFC3339), "to", x.view.To.Format(time.RFC3339), "range", "",
	}
}

// hitURL returns the list of the calls that x is about, or "" if no filter selects them.
func (x *incident) hitURL() string {
	switch {
	case len(x.Rules) > 0 || x.measured != nil || x.ofCache():
		return ""
	case x.Why == "":
		return x.view.Calls(append(x.scope(), "failed", "yes")...)
	}
	return x.view.Calls(append(x.scope(), "cause", x.Why)...)
}

// investigate returns the commands and the SQL to copy, and links to other pages.
func (s incidentPage) investigate(ctx context.Context, x *incident) (any, error) {
	v := x.view
	data := map[string]any{}
	data["Commands"] = strings.Join(x.commands, "\n")
	if x.noCalls() {
		return data, nil
	}
	data["Description"] = x.description // otherwise the first section shows it
	if data["Commands"] == "" {
		labels := map[string]string{}
		for _, name := range filterNames {
			labels[name] = first(x.values[name])
		}
		if x.measured != nil {
			labels["measure"] = x.measured.name
		}
		if x.ofCache() {
			labels["measure"] = "cache"
		}
		if s.incidents != nil {
			data["Commands"] = strings.Join(s.incidents.Commands(labels, v.From, "", ""), "\n")
		}
	}
	data["Fleet"], data["Calls"] = v.With("/", x.scope()...), x.hitURL()
	name, values := "incident_calls", x.with("why", x.Why)
	switch {
	case x.measured != nil && !x.measured.hits():
		return data, nil
	case x.measured != nil:
		name, values = "measured_calls", x.hits()
	case x.ofCache():
		name, values = "cache", x.with("reason", x.Rules[0])
	case len(x.Rules) > 0:
		name, values = "finding_examples", x.with("rule", x.Rules[0])
	}
	q, err := Statement(name)
	if err != nil {
		return nil, err
	}
	sql, params, err := s.bind(ctx, q, values, v.Now)
	if err != nil {
		return nil, err
	}
	text := inline(sql, params)
	data["SQL"], data["Explore"] = text, explorePath+"/"+ownSQL+encode(url.Values{"sql": {text}})
	return data, nil
}
