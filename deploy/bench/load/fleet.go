package load

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// The shape of a fleet, from recorded traffic that nobody wrote for llmtap: 12,440 conversations with 36,934 calls and 27,485
// exchanges of public agents, benchmarks and recorded tests (sierra-research/tau-bench, mcpmark, crmne/ruby_llm,
// pydantic/pydantic-ai, crewAIInc/crewAI, traceloop/openllmetry and others). Only these numbers were taken from it. All bodies
// are those of OpenAI's chat completions, in which 55 % of the exchanges are.
const (
	runShare      = 1425. / 12440  // conversations that are runs of agents with tools; the others are one or two calls
	streamShare   = 4133. / 27485  // answers that are streamed
	parallelShare = 0.138          // turns of a run with more than one tool call
	broken400     = 167. / 27485   // calls refused because of a broken history: half of the 334 answers 400
	other400      = 167. / 27485   // the other half
	retryLater    = 88. / 27485    // 429, 500, 503, 529: the agent sends the call again
	refused       = 317. / 27485   // 401, 403, 404: the conversation ends
	perCall       = 36934. / 12440 // calls of a conversation
	secondShort   = 0.53           // short conversations continue with this probability: 1.53 calls on average
	mostTurns     = 125            // the longest run has 250 messages
)

var (
	turnsOf       = size{11, 34, mostTurns}     // calls of a run: 32 messages in the median, 98 in the 95th percentile, with two calls of a turn, its reply and its answer
	runPrompt     = size{6263, 6500, 8000}      // system message of a run
	shortPrompt   = size{392, 1178, 8000}       // the same of a short conversation
	taskOf        = size{200, 900, 20_000}      // first message of a run
	toolReply     = size{1500, 12_000, 300_000} // 457 and 5,839 bytes for all messages of runs, of which those of tools are the large ones
	answerOf      = size{246, 699, 20_000}      // message of the model in a run
	shortRequest  = size{140, 17_000, 300_000}  // message of a user in a short conversation: requests have 425 bytes in the median, 21,422 in the 95th percentile
	shortAnswer   = size{235, 2955, 60_000}     // its answer
	otherFailures = []failure{{404, 101, notFound}, {401, 190, badKey}, {403, 25, badKey}}
	laterFailures = []failure{{429, 68, rateLimit}, {500, 14, serverError}, {503, 3, serverError}, {529, 3, serverError}}
)

// A failure is an answer with an error, with a weight.
type failure struct {
	status int
	weight int
	body   string
}

// OrphanReply is the body of a refused call whose history lacks the call that a message of a tool answers.
const OrphanReply = `{"error":{"message":"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.","type":"invalid_request_error","param":"messages"}}`

const (
	notFound    = `{"error":{"message":"The model does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}`
	badKey      = `{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}`
	rateLimit   = `{"error":{"message":"Rate limit reached for gpt-4.1 on tokens per min (TPM).","type":"tokens","code":"rate_limit_exceeded"}}`
	serverError = `{"error":{"message":"The server had an error while processing your request.","type":"server_error"}}`
	tooLong     = `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 131072 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`
)

// Shapes of a fleet.
const (
	Mix   = "mix"   // runs and short conversations, as recorded
	Runs  = "runs"  // runs of agents only: long histories, sent again in each call
	Short = "short" // conversations of one or two calls only: small bodies
)

// A FleetConfig describes a fleet.
type FleetConfig struct {
	Seed        uint64
	Shape       string
	Services    int
	Environment string // marks the calls of this fleet
	TextBytes   int    // of which its texts are pieces; 0: 8 MiB
}

// A Fleet makes the calls of agents. The same seed makes the same calls, but for ids and times.
type Fleet struct {
	cfg    FleetConfig
	rnd    *rand.Rand
	text   *text
	prompt []string // by service, as escaped JSON
	tools  []byte
	agents []*agent
	next   int               // agent whose turn it is
	seqs   map[string]uint64 // events by instance
	begun  int               // conversations
}

// An agent makes one call after the other.
type agent struct {
	labels   event.Labels
	instance string
	run      bool
	turns    int    // calls left in the conversation
	history  []byte // messages so far, separated by commas
	first    bool   // the next call is the first of the conversation
	broken   bool   // the next request is refused, because the agent lost the tool calls of an answer
	open     *Call  // waits for its response
	seq      *uint64
}

// NewFleet returns a fleet without agents.
func NewFleet(cfg FleetConfig) *Fleet {
	rnd := rand.New(rand.NewPCG(cfg.Seed, 1))
	f := &Fleet{cfg: cfg, rnd: rnd, text: newText(rnd, cmp.Or(cfg.TextBytes, textBytes)), seqs: map[string]uint64{}}
	for range cfg.Services {
		f.prompt = append(f.prompt, f.text.piece(rnd, runPrompt.draw(rnd)))
	}
	var list []Object
	for i := range 8 {
		list = append(list, Object{"type": "function", "function": Object{
			"name": toolNames[i], "description": strings.NewReplacer(`\n`, " ", `\"`, "'").Replace(f.text.piece(rnd, 160)),
			"parameters": Object{"type": "object", "required": []string{"id"}, "properties": Object{
				"id": Object{"type": "string", "description": "Identifier of the record."}, "query": Object{"type": "string"}, "limit": Object{"type": "integer"},
			}},
		}})
	}
	f.tools = Marshal(list)
	return f
}

var toolNames = []string{"read_file", "search", "get_order", "get_user", "list_items", "run_query", "update_order", "calculate"}

// Agents sets the number of agents, each of which waits for at most one call. Agents that are removed leave no open calls
// if Finish was called before.
func (f *Fleet) Agents(n int) {
	for i := len(f.agents); i < n; i++ {
		service := i % f.cfg.Services
		a := &agent{
			labels: event.Labels{
				Service: fmt.Sprintf("bench-%03d", service), ServiceVersion: fmt.Sprintf("1.%d.0", i/f.cfg.Services%2), Environment: f.cfg.Environment,
				Agent: "agent", Stage: []string{"planner", "executor", "writer"}[i%3],
			},
			instance: fmt.Sprintf("%s-%d", f.cfg.Environment, i),
		}
		a.seq = new(uint64)
		f.agents = append(f.agents, a)
	}
	f.agents = f.agents[:n]
	f.next = 0
}

// Next returns the next events of the fleet: the response of an agent's call, if one is open, and its next request. The calls
// of an agent are as far apart as the events of all other agents between them.
func (f *Fleet) Next() (answered *Call, events []*event.Event) {
	a := f.agents[f.next]
	f.next = (f.next + 1) % len(f.agents)
	answered, events = a.answer()
	a.open = f.call(a)
	return answered, append(events, a.open.requestEvent(a.seq))
}

// Finish returns the responses of all open calls.
func (f *Fleet) Finish() (answered []*Call, events []*event.Event) {
	for _, a := range f.agents {
		if c, e := a.answer(); c != nil {
			answered, events = append(answered, c), append(events, e...)
		}
	}
	return answered, events
}

// answer returns the response of the open call, which ends now; nil if there is none.
func (a *agent) answer() (*Call, []*event.Event) {
	c := a.open
	if c == nil {
		return nil, nil
	}
	a.open = nil
	c.Duration = time.Since(c.At)
	return c, []*event.Event{c.responseEvent(a.seq)}
}

// call returns the next call of a, and continues its history with the answer and the replies of tools.
func (f *Fleet) call(a *agent) *Call {
	if a.turns <= 0 {
		f.begin(a)
	}
	a.turns--
	c := &Call{ID: NewID(), Labels: a.labels, Instance: a.instance, URL: openAI, Status: 200, At: time.Now(), ResponseType: "application/json"}
	var tools []byte
	if a.run {
		tools = f.tools
	}
	c.Request = chatRequest(a.history, tools)
	if !f.fails(a, c) {
		f.succeed(a, c)
	}
	a.first = false
	return c
}

// begin starts a conversation.
func (f *Fleet) begin(a *agent) {
	f.begun++
	a.labels.Conversation = fmt.Sprintf("%s-%d", f.cfg.Environment, f.begun)
	a.first, a.broken, a.history = true, false, a.history[:0]
	a.run = f.cfg.Shape == Runs || f.cfg.Shape == Mix && f.rnd.Float64() < runShare
	if a.run {
		a.turns = max(1, turnsOf.draw(f.rnd))
		prompt := f.prompt[f.begun%len(f.prompt)]
		a.history = append(a.history, `{"role":"system","content":"`+prompt+`"},`...)
		a.history = append(a.history, f.text.message(f.rnd, "user", taskOf.draw(f.rnd), "")...)
		return
	}
	a.turns = 1
	if f.rnd.Float64() < secondShort {
		a.turns = 2
	}
	a.history = append(append(a.history, f.text.message(f.rnd, "system", shortPrompt.draw(f.rnd), "")...), ',')
	a.history = append(a.history, f.text.message(f.rnd, "user", shortRequest.draw(f.rnd), "")...)
}

// fails makes c fail with the probabilities of the recorded traffic, and reports whether it does.
func (f *Fleet) fails(a *agent, c *Call) bool {
	p := f.rnd.Float64()
	switch {
	case a.broken:
		c.Status, c.Response, a.turns = 400, []byte(OrphanReply), 0
	case p < other400:
		c.Status, c.Response, a.turns = 400, []byte(tooLong), 0
	case a.first && p < other400+refused*perCall:
		x := f.pick(otherFailures)
		c.Status, c.Response, a.turns = x.status, []byte(x.body), 0
	case p > 1-retryLater:
		x := f.pick(laterFailures)
		c.Status, c.Response = x.status, []byte(x.body)
		a.turns++
	default:
		return false
	}
	return true
}

func (f *Fleet) pick(all []failure) failure {
	sum := 0
	for _, x := range all {
		sum += x.weight
	}
	n := f.rnd.IntN(sum)
	return all[slices.IndexFunc(all, func(x failure) bool { n -= x.weight; return n < 0 })]
}

// succeed answers c, with tool calls if the conversation continues, and extends the history of a.
func (f *Fleet) succeed(a *agent, c *Call) {
	size := shortAnswer
	if a.run {
		size = answerOf
	}
	if !a.run || a.turns == 0 {
		answer := f.text.message(f.rnd, "assistant", size.draw(f.rnd), "")
		f.respond(c, answer)
		a.history = append(append(append(a.history, ','), answer...), ',')
		a.history = append(a.history, f.text.message(f.rnd, "user", taskOf.draw(f.rnd), "")...)
		return
	}
	calls := 1
	if f.rnd.Float64() < parallelShare {
		calls = 2 + f.rnd.IntN(2)
	}
	var list, replies []string
	for i := range calls {
		id := fmt.Sprintf("call_%d_%d_%d", f.begun, a.turns, i)
		list = append(list, fmt.Sprintf(`{"id":"%s","type":"function","function":{"name":"%s","arguments":"{\"id\":\"%s\",\"limit\":%d}"}}`,
			id, toolNames[f.rnd.IntN(len(toolNames))], id, f.rnd.IntN(100)))
		replies = append(replies, string(f.text.message(f.rnd, "tool", toolReply.draw(f.rnd), `,"tool_call_id":"`+id+`"`)))
	}
	members := `,"tool_calls":[` + strings.Join(list, ",") + `]`
	answer := f.text.message(f.rnd, "assistant", size.draw(f.rnd), members)
	f.respond(c, answer)
	// The incident that llmtap was made for: the agent stores the text of the answer only.
	if f.rnd.Float64() < broken400 {
		a.broken = true
		answer = json.RawMessage(strings.Replace(string(answer), members, "", 1))
	}
	a.history = append(append(append(a.history, ','), answer...), ',')
	a.history = append(a.history, strings.Join(replies, ",")...)
}

// respond sets the response of c, whole or as a stream.
func (f *Fleet) respond(c *Call, answer json.RawMessage) {
	c.Response = ChatResponse(answer)
	if f.rnd.Float64() < streamShare && finish(answer) == "stop" {
		c.Response, c.ResponseType = Streamed(answer), "text/event-stream"
	}
}

// Streamed returns the answer in chunks of about 40 bytes, as a provider sends it.
func Streamed(answer json.RawMessage) []byte {
	var m struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		panic("BUG: " + err.Error())
	}
	var b []byte
	id := NewID()
	chunk := func(delta Object, finish any) {
		b = append(append(append(b, "data: "...), Marshal(Object{
			"id": "chatcmpl-" + id, "object": "chat.completion.chunk", "model": "gpt-4.1-2025-04-14", "choices": []Object{{"index": 0, "delta": delta, "finish_reason": finish}},
		})...), "\n\n"...)
	}
	for rest := m.Content; rest != ""; {
		n := min(40, len(rest)) // the text is ASCII
		chunk(Object{"role": "assistant", "content": rest[:n]}, nil)
		rest = rest[n:]
	}
	chunk(Object{}, "stop")
	return append(b, "data: [DONE]\n\n"...)
}
