package agenttest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A Kind is what an agent does with its history.
type Kind struct {
	Name string

	// Causes are the root causes that are true of the agent; a healthy agent has none. Also are root causes that may be stated
	// besides, because they are true too.
	Causes, Also []string
	per          map[*Dialect][]string // the causes in a dialect, if they differ

	// Unknown returns why an observer cannot know the root cause of a run; "" if it can.
	Unknown func(v *Variant) string

	needs needs
	not   []*Dialect // dialects in which the kind does not exist or is no defect
	only  []*Dialect // dialects in which the kind exists; nil for all
	class defect     // of the error text
	play  func(a *agent) bool
}

// needs are properties that a run must have.
type needs struct {
	parallel bool // an answer with several calls
	late     bool // an answer with calls after three or more steps
	loop     bool // nothing but the replies between that answer and the next
	reasons  bool // a model that reasons
	runs     int  // number of runs; 0 is 1
	streams  bool
	plain    bool // a model that does not reason
}

// A Variant is how a run is played.
type Variant struct {
	Stream       bool
	Conversation bool // has a given id
	Shape        bool // capture
	Thinks       bool
	IDs          string // random, digits, short, functions or none
}

// String returns the names of the options of v.
func (v *Variant) String() string {
	list := []string{"ids=" + v.IDs}
	for _, o := range []struct {
		on   bool
		name string
	}{{v.Stream, "stream"}, {v.Conversation, "conversation"}, {v.Shape, "shape"}, {v.Thinks, "thinks"}} {
		if o.on {
			list = append(list, o.name)
		}
	}
	return strings.Join(list, " ")
}

// Played is a run as events, in order.
type Played struct {
	Variant
	Source string
	Events []*event.Event
	Judged int // exchanges before those that show the defect
}

// agent plays a run. Its store is the history that it sends, and which kinds damage.
type agent struct {
	*Dialect
	Variant
	rnd  *rand.Rand
	runs []*Run
	run  *Run

	store  []Message
	system string
	at     int  // step whose answer or replies are damaged
	always bool // and those of all later steps

	broken   bool // the history has the defect
	after    int  // exchanges since then
	instance string
	labels   event.Labels
	model    string
	host     string
	force    string
	anew     bool   // writes the first message of the user anew for each request
	chained  bool   // lets the provider keep the history
	answered string // id of the last answer
	class    defect

	now    time.Time
	seq    map[string]uint64
	calls  int
	judged int
	events []*event.Event
}

// Play plays a run of the pool as an agent of the kind. The same seed gives the same events. It returns false if no run of the
// pool fits.
func Play(k *Kind, d *Dialect, pool []*Run, seed uint64) (*Played, bool) {
	if !k.In(d) {
		return nil, false
	}
	rnd := rand.New(rand.NewPCG(seed, 16))
	for range 50 {
		a := &agent{Dialect: d, rnd: rnd, class: k.class, seq: map[string]uint64{}, now: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)}
		a.Variant = Variant{Stream: rnd.IntN(2) == 0, Conversation: rnd.IntN(2) == 0, Shape: rnd.IntN(3) == 0, IDs: "random"}
		a.Thinks = d.thinker != "" && !k.needs.plain && (k.needs.reasons || rnd.IntN(4) == 0)
		a.Stream = a.Stream || k.needs.streams
		switch {
		case !d.HasIDs:
			a.IDs = "none"
		case d == &gemini:
			a.IDs = "digits"
		case d == &openAI || d == &deepSeek:
			a.IDs = []string{"random", "random", "random", "short", "functions"}[rnd.IntN(5)]
		}
		for range max(1, k.needs.runs) {
			r := pool[rnd.IntN(len(pool))]
			if k.needs.parallel {
				r = r.join(rnd)
			}
			a.runs = append(a.runs, r)
		}
		if p, ok := a.start(k); ok {
			return p, true
		}
	}
	return nil, false
}

// TrueOf returns the root causes that are true of the agent in a dialect.
func (k *Kind) TrueOf(d *Dialect) []string {
	if list, ok := k.per[d]; ok {
		return list
	}
	return k.Causes
}

// In reports whether the kind exists in the dialect.
func (k *Kind) In(d *Dialect) bool {
	return !slices.Contains(k.not, d) && (k.only == nil || slices.Contains(k.only, d)) && (d.thinker != "" || !k.needs.reasons)
}

// start prepares the first run, chooses the step to damage and plays.
func (a *agent) start(k *Kind) (*Played, bool) {
	a.always = a.rnd.IntN(2) == 0
	a.begin(0)
	if a.at = a.choose(k.needs); a.at < 0 || !k.play(a) {
		return nil, false
	}
	return &Played{Variant: a.Variant, Source: a.runs[0].Source, Events: a.events, Judged: a.judged}, true
}

// maxSteps bounds the number of exchanges of a run.
const maxSteps = 10

// begin begins run number n in a new process and conversation.
func (a *agent) begin(n int) {
	r := a.runs[n]
	if most := 4 + a.rnd.IntN(maxSteps-3); len(r.Steps) > most {
		short := *r
		short.Steps = r.Steps[:most]
		r = &short
	}
	a.run, a.system, a.store, a.answered = a.prepare(r), r.System, nil, ""
	a.process()
	a.model = a.Dialect.model
	if a.Thinks {
		a.model = a.thinker
	}
	a.labels = event.Labels{Service: "agent", ServiceVersion: "1.0", Environment: "test"}
	if a.Conversation {
		a.labels.Conversation = "conversation-" + random(a.rnd, alphanumeric, 8)
	}
	if a.rnd.IntN(2) == 0 {
		a.labels.Run = "run-" + random(a.rnd, alphanumeric, 8)
	}
}

// process begins a new process.
func (a *agent) process() { a.instance = "process-" + random(a.rnd, alphanumeric, 8) }

// prepare returns a copy of r with ids and reasoning as the provider gives them.
func (a *agent) prepare(r *Run) *Run {
	run := &Run{Source: r.Source, System: r.System}
	made := 0
	var last []Call
	for i, s := range r.Steps {
		before := slices.Clone(s.Before)
		for j := range before {
			if before[j].Role == "tool" {
				before[j] = before[j].clone()
				for k := range before[j].Replies {
					before[j].Replies[k].ID = last[k].ID
				}
			}
		}
		m := s.Answer.clone()
		if a.Thinks && (i == 0 || len(m.Calls) > 0 || a.rnd.IntN(2) == 0) {
			m.Thinking = fmt.Sprintf("Step %d of the task %s: what is known, and what is missing?", i+1, random(a.rnd, alphanumeric, 12))
			m.Signature = random(a.rnd, alphanumeric, 120)
		}
		m.ItemIDs = [2]string{"rs_" + random(a.rnd, "0123456789abcdef", 48), "msg_" + random(a.rnd, "0123456789abcdef", 48)}
		for j := range m.Calls {
			c := &m.Calls[j]
			c.ID = a.newID(c.Name, made)
			c.ItemID = "fc_" + random(a.rnd, "0123456789abcdef", 48)
			if j == 0 && m.Thinking != "" {
				c.Signature = m.Signature
			}
			made++
		}
		last = m.Calls
		run.Steps = append(run.Steps, Step{before, m})
	}
	return run
}

// newID returns the id of call number n.
func (a *agent) newID(name string, n int) string {
	switch a.IDs {
	case "short":
		return fmt.Sprint("call_", n)
	case "functions":
		if id := fmt.Sprintf("functions.%s:%d", name, n); len(id) <= 40 { // OpenAI refuses longer ones
			return id
		}
	}
	return a.callID(a.rnd)
}

// choose returns a step with calls and replies, or -1.
func (a *agent) choose(n needs) int {
	var list []int
	for i := 0; i+1 < len(a.run.Steps); i++ {
		calls := len(a.run.Steps[i].Answer.Calls)
		if calls == 0 || n.parallel && calls < 2 || n.late && i < 3 || n.loop && len(a.run.Steps[i+1].Before) > 1 {
			continue
		}
		list = append(list, i)
	}
	if len(list) == 0 {
		return -1
	}
	return list[a.rnd.IntN(len(list))]
}

// hooks are what an agent does to its history. A nil hook does nothing.
type hooks struct {
	save  func(m Message) []Message              // what is stored of an answer that is damaged
	reply func(m Message) []Message              // what is stored of the replies to an answer that is damaged
	next  func(i int, m *Message) ending         // changes the answer of step i before it is sent
	load  func(i int, store []Message) []Message // what is sent of the store in step i
}

// damaged reports whether the answer of step i is damaged.
func (a *agent) damaged(i int) bool {
	return i == a.at || a.always && i > a.at && len(a.run.Steps[i].Answer.Calls) > 0
}

// steps plays the run to the end, until the provider refuses a request, or until three exchanges after the history broke. It
// reports whether the history broke.
func (a *agent) steps(h hooks) bool {
	a.through(0, len(a.run.Steps), h)
	return a.after > 0
}

// through plays the steps from from to to, which is excluded. It returns false if the agent gave up.
func (a *agent) through(from, to int, h hooks) bool {
	for i := from; i < to; i++ {
		s := a.run.Steps[i]
		for _, m := range s.Before {
			list := []Message{m}
			if h.any() && m.Role == "tool" && i > 0 && a.damaged(i-1) {
				a.broken = true
				if h.reply != nil {
					list = h.reply(m.clone())
				}
			}
			a.store = append(a.store, list...)
		}
		history := a.store
		if h.load != nil {
			history = h.load(i, slices.Clone(a.store))
		}
		m, e := s.Answer.clone(), whole
		if h.next != nil {
			e = h.next(i, &m)
		}
		if !a.exchange(history, m, e) {
			return false
		}
		list := []Message{m}
		if h.save != nil && a.damaged(i) {
			list = h.save(m.clone())
		}
		a.store = append(a.store, list...)
	}
	return true
}

// any reports whether h damages histories.
func (h *hooks) any() bool { return h.save != nil || h.reply != nil || h.next != nil }

// say adds messages to the store, sends it and stores the answer, a text. It returns false if the agent gave up.
func (a *agent) say(list ...Message) bool {
	a.store = append(a.store, list...)
	m := Message{Role: "assistant", Text: "This is what I found out about it so far: " + random(a.rnd, alphanumeric, 20)}
	if !a.exchange(a.store, m, whole) {
		return false
	}
	a.store = append(a.store, m)
	return true
}

// exchange sends a history and gets the answer m, or the error of a provider that refuses a broken history. It returns false if
// the agent gives up.
func (a *agent) exchange(history []Message, m Message, e ending) bool {
	if !a.broken {
		a.endAs(a.ask(history), m, e)
		return true
	}
	a.after++
	if a.rnd.IntN(5) < 2 {
		for range 1 + a.rnd.IntN(2) {
			a.refuse(a.ask(history))
		}
		return false
	}
	a.endAs(a.ask(history), m, e)
	return a.after < 3
}

// pending is a request without an answer.
type pending struct {
	id string
	r  request
	at time.Time
}

// ask sends a history.
func (a *agent) ask(history []Message) pending {
	a.calls++
	p := pending{id: fmt.Sprintf("018f0000-0000-7000-8000-%012d", a.calls), at: a.now}
	p.r = request{
		model: a.model, host: a.host, system: a.system, messages: slices.Clone(history), stream: a.Stream, thinks: a.Thinks,
		force: a.force, chatNull: a.Dialect == &openAI, id: random(a.rnd, alphanumeric, 24),
	}
	if a.anew && len(history) > 0 && p.r.messages[0].Role == "user" {
		p.r.messages[0].Text = fmt.Sprintf("For context, it is %s. %s", a.now.Format(time.TimeOnly), p.r.messages[0].Text)
	}
	if a.chained && a.answered != "" {
		p.r.previous = a.answered
		for i, m := range history {
			if m.Role == "assistant" {
				p.r.messages = slices.Clone(history[i+1:])
			}
		}
	}
	for _, s := range a.run.Steps {
		for _, c := range s.Answer.Calls {
			if !slices.Contains(p.r.tools, c.Name) {
				p.r.tools = append(p.r.tools, c.Name)
			}
		}
	}
	a.send(&event.Event{Kind: event.Request, Exchange: p.id, URL: a.url(&p.r), Method: "POST", Body: marshal(a.body(&p.r))})
	return p
}

func (a *agent) end(p pending, m Message) { a.endAs(p, m, whole) }

// endAs answers a request with m.
func (a *agent) endAs(p pending, m Message, e ending) {
	a.answered = p.r.id
	contentType, body := a.answer(&p.r, &m, e)
	a.respond(p, 200, contentType, body)
}

func (a *agent) respond(p pending, status int, contentType string, body []byte) *event.Event {
	return a.send(&event.Event{
		Kind: event.Response, Exchange: p.id, Status: status, Duration: a.now.Sub(p.at), FirstByte: time.Second,
		ContentType: contentType, Body: body,
	})
}

// refuse answers a request with the error of the provider, or with a text that explains nothing.
func (a *agent) refuse(p pending) {
	text := a.refusals[a.class]
	if text == "" || a.rnd.IntN(2) == 0 {
		text = "Request contains an invalid argument."
	}
	a.respond(p, 400, "application/json", marshal(a.refusal(text)))
}

// fail answers a request with an error that has nothing to do with it.
func (a *agent) fail(p pending, status int, text string) {
	a.respond(p, status, "application/json", marshal(a.refusal(text)))
}

// send adds an event of the current process, some seconds after the last.
func (a *agent) send(ev *event.Event) *event.Event {
	a.now = a.now.Add(time.Duration(300+a.rnd.IntN(6000)) * time.Millisecond)
	a.seq[a.instance]++
	ev.Time, ev.Labels, ev.Instance, ev.Seq, ev.Origin = a.now, a.labels, a.instance, a.seq[a.instance], event.OriginHook
	ev.Capture, ev.Part, ev.Parts, ev.BodyBytes = event.CaptureFull, 1, 1, len(ev.Body)
	a.events = append(a.events, ev)
	return ev
}

// nudge returns a message of the user that the recording does not have.
func (a *agent) nudge() Message {
	return userSays([]string{"Please continue.", "Are you still there?", "What about the second one?", "OK, go on."}[a.rnd.IntN(4)])
}
