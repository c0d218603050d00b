package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A secretKind makes fake keys of one kind. They are made at run time, so that no scanner of this file finds any.
type secretKind struct {
	name string
	// text is the key and what stands around it where people write it down, with RANDOM for its secret part.
	text     string
	alphabet string
	length   int
}

const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
	hexes  = "0123456789abcdef"
	alnum  = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + digits
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

var secretKinds = []secretKind{
	{"OpenAI", "s" + "k-proj-RANDOM", alnum, 48},
	{"Anthropic", "s" + "k-ant-api03-RANDOM", alnum, 60},
	{"Google", "AI" + "zaRANDOM", alnum, 35},
	{"AWS id", "AK" + "IARANDOM", upper, 16},
	{"AWS secret", "AWS_SECRET_ACCESS_KEY=RANDOM", alnum, 40},
	{"Slack bot", "xo" + "xb-RANDOM", alnum, 40},
	{"Slack app", "xa" + "pp-1-RANDOM", alnum, 40},
	{"GitHub", "gh" + "p_RANDOM", alnum, 36},
	{"GitHub fine-grained", "github" + "_pat_RANDOM", alnum, 59},
	{"GitLab", "gl" + "pat-RANDOM", alnum, 20},
	{"Stripe", "sk" + "_live_RANDOM", alnum, 40},
	{"Twilio", "TWILIO_AUTH_TOKEN=RANDOM", hexes, 32},
	{"SendGrid", "S" + "G.RANDOM", alnum, 60},
	{"Hugging Face", "h" + "f_RANDOM", alnum, 34},
	{"Azure", "AZURE_OPENAI_API_KEY=RANDOM", alnum, 52},
	{"JWT", "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0.RANDOM", alnum, 43},
	{"npm", "np" + "m_RANDOM", alnum, 36},
	{"PyPI", "py" + "pi-AgEIcHlwaS5vcmcRANDOM", alnum, 100},
	{"PEM", "-----BEGIN" + " PRIVATE KEY-----\nMIIEvQIBADANBgkqRANDOM\n-----END" + " PRIVATE KEY-----", alnum, 120},
	{"URL with password", "postgres://app:RANDOM@db.internal/app", alnum, 24},
	{"Databricks", "da" + "piRANDOM", hexes, 32},
	{"Bearer", "Authorization: Bearer RANDOM", alnum, 40},
	{"Telegram", "TELEGRAM_BOT_TOKEN=123456789:AA" + "RANDOM", alnum, 33},
	{"Discord", "DISCORD_BOT_TOKEN=RANDOM", alnum, 59},
}

// A plantedSecret is one key in one place.
type plantedSecret struct{ kind, place, text, middle string }

// A planter makes keys, each for one kind and place, and remembers them.
type planter struct{ all []plantedSecret }

// plant returns the key of a kind for a place. It is the same each time.
func (p *planter) plant(k secretKind, place string) string {
	var random []byte
	for n := 0; len(random) < k.length; n++ {
		for _, b := range sha256.Sum256(fmt.Append(nil, k.name, place, n)) {
			random = append(random, k.alphabet[int(b)%len(k.alphabet)])
		}
	}
	random = random[:k.length]
	random[k.length/2] = '7' // without a digit, a key looks like a name
	text := strings.ReplaceAll(k.text, "RANDOM", string(random))
	s := plantedSecret{k.name, place, text, string(random[2 : len(random)-2])}
	if !slices.Contains(p.all, s) {
		p.all = append(p.all, s)
	}
	return text
}

// A secretsTest is a collector that receives keys in all places.
type secretsTest struct {
	*testing.T
	planter
	capture  string
	c        *target
	config   string
	slack    *slack.Server
	provider *httptest.Server
	mu       sync.Mutex // guards answers
	answers  map[string]answerOf
}

// An answerOf is what the provider answers to a path.
type answerOf struct {
	status int
	media  string
	body   string
}

// Fake keys in every place of calls and of the configuration are found nowhere: not in ClickHouse, NATS, files, logs, metrics, pages,
// output of commands, Slack or the arguments of processes. With capture full, the stream contains bodies until they have been stored
// and their time is over.
func TestSecrets(t *testing.T) {
	slowtest.Skip(t)
	needClickHouse(t)
	t.Parallel()
	for _, capture := range []string{event.CaptureShape, event.CaptureFull} {
		t.Run(capture, func(t *testing.T) {
			t.Parallel()
			s := newSecretsTest(t, capture)
			for _, k := range secretKinds {
				s.throughProxy(k)
				s.overHTTP(k)
				s.overOTLP(k)
			}
			s.waitStored()
			s.search()
		})
	}
}

func newSecretsTest(t *testing.T, capture string) *secretsTest {
	s := &secretsTest{T: t, capture: capture, slack: slack.New(slack.Config{Channels: []string{"oncall"}}), answers: map[string]answerOf{}}
	hooks := httptest.NewServer(s.slack)
	t.Cleanup(hooks.Close)
	s.provider = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the client reports an error
		s.mu.Lock()
		a := s.answers[r.URL.Path]
		s.mu.Unlock()
		w.Header().Set("Content-Type", a.media)
		w.Header().Set("Set-Cookie", "session="+a.media)
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body) // the same
	}))
	t.Cleanup(s.provider.Close)
	config := func(k secretKind, name string) string { return s.plant(k, "configuration "+name) }
	plain := secretKind{"token", "RANDOM", alnum, 40}
	text := fmt.Sprintf(`
http: {token: %s}
ui: {token: %s}
receive: {token: %s, otlp_capture: %s}
proxy: {token: %s, capture: %s, upstreams: {up: %q}}
nats_server: {token: %s, service_tokens: {checkout-agent: %s}}
slack: {token: %s, channel: '#oncall', api_url: '%s/api/', content: true}
webhook: {url: 'http://hook:%s@127.0.0.1:9/hook?key=%s', secret: %s}
pagerduty: {routing_key: %s, url: 'http://127.0.0.1:9/v2/enqueue'}
msteams: {webhook_url: 'http://127.0.0.1:9/workflows/invoke?sig=%s'}
email: {to: oncall@example.com, from: llmtap@example.com, smarthost: '127.0.0.1:9', auth_username: llmtap, auth_password: %s}
alertmanager: {urls: ['http://user:%s@127.0.0.1:9'], token: %s}
alerts: {heartbeat_url: 'http://127.0.0.1:9/ping/%s'}
`, config(plain, "http.token"), config(plain, "ui.token"), config(plain, "receive.token"), capture, config(plain, "proxy.token"), capture, s.provider.URL,
		config(plain, "nats_server.token"), config(plain, "nats_server.service_tokens"), config(secretKinds[5], "slack.token"), hooks.URL,
		config(plain, "webhook.url"), config(plain, "webhook.url query"), config(plain, "webhook.secret"), config(plain, "pagerduty.routing_key"),
		config(plain, "msteams.webhook_url"), config(plain, "email.auth_password"),
		config(plain, "alertmanager.urls"),
		config(plain, "alertmanager.token"), config(plain, "alerts.heartbeat_url"))
	s.c = startTarget(t, text, certs.Client{}, "")
	s.config = s.c.up.flags[1]
	bearer := func(name string) http.Header { return http.Header{"Authorization": {"Bearer " + config(plain, name)}} }
	s.c.token = map[string]http.Header{
		"http": bearer("http.token"), "ui": bearer("ui.token"), "receive": bearer("receive.token"),
		"proxy": {"X-Llmtap-Token": {config(plain, "proxy.token")}},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.c.up.stderr.String())
		}
	})
	s.c.ready(t)
	return s
}

type object = map[string]any

func (s *secretsTest) json(v any) string {
	s.Helper()
	b := must.Get(json.Marshal(v))(s)
	return string(b)
}

// request returns a request of Chat Completions with keys of a kind in every position of a text.
func (s *secretsTest) request(k secretKind, from string) object {
	in := func(place string) string { return "use " + s.plant(k, from+" body "+place) + " for it" }
	args := s.json(object{"command": "run with " + s.plant(k, from+" body tool arguments"), "env": s.plant(k, from+" body tool argument")})
	return object{
		"model": "gpt-5", "user": s.plant(k, from+" body user"), "metadata": object{"note": in("metadata")},
		"tools": []object{{"type": "function", "function": object{"name": "run", "description": in("tool description"), "parameters": object{
			"type": "object", "properties": object{"command": object{
				"type": "string", "description": in("parameter description"),
				"default": in("parameter default"),
			}},
		}}}},
		"messages": []object{
			{"role": "system", "content": in("system prompt")},
			{"role": "user", "content": []object{{"type": "text", "text": in("user message")}}},
			{"role": "assistant", "content": nil, "tool_calls": []object{{"id": "call_1", "type": "function", "function": object{"name": "run", "arguments": args}}}},
			{"role": "tool", "tool_call_id": "call_1", "content": "export " + s.plant(k, from+" body tool result")},
			{"role": "user", "content": in("last message")},
		},
	}
}

// response returns an answer with keys in text and arguments.
func (s *secretsTest) response(k secretKind, from string) object {
	return object{"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-5", "choices": []object{{"index": 0, "finish_reason": "tool_calls", "message": object{
		"role": "assistant", "content": "here: " + s.plant(k, from+" body answer"), "tool_calls": []object{{"id": "call_2", "type": "function", "function": object{
			"name": "run", "arguments": s.json(object{"command": s.plant(k, from+" body answered arguments")}),
		}}},
	}}}}
}

// stream returns an answer in events, whose deltas have five bytes of the text each.
func (s *secretsTest) stream(k secretKind, from string) string {
	var b strings.Builder
	for _, part := range slices.Collect(slices.Chunk([]byte("here: "+s.plant(k, from+" streamed answer")), 5)) {
		fmt.Fprintf(&b, "data: %s\n\n", s.json(object{"object": "chat.completion.chunk", "model": "gpt-5", "choices": []object{{"index": 0, "delta": object{"content": string(part)}}}}))
	}
	b.WriteString(`data: {"object":"chat.completion.chunk","model":"gpt-5","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

// rejection returns the error of a provider that repeats a key.
func (s *secretsTest) rejection(k secretKind, from string) string {
	return s.json(object{"error": object{
		"message": "Incorrect API key provided: " + s.plant(k, from+" error text") + ". Request was: " + s.plant(k, from+" error quotation"),
		"type":    "invalid_request_error", "param": s.plant(k, from+" error param"), "code": "invalid_api_key",
	}})
}

// throughProxy makes calls through the proxy: one that is answered, one that is streamed and one that fails.
func (s *secretsTest) throughProxy(k secretKind) {
	s.Helper()
	const from = "proxy"
	line := func(place string) string { return strings.ReplaceAll(s.plant(k, from+" "+place), "\n", " ") }
	for name, a := range map[string]answerOf{
		"answer": {200, "application/json", s.json(s.response(k, from))}, "stream": {200, "text/event-stream", s.stream(k, from)},
		"error": {400, "application/json", s.rejection(k, from)}, "text": {
			401, "text/plain",
			"no: " + s.plant(k, from+" error plain text"),
		},
	} {
		path := fmt.Sprintf("/%s/%x/v1/chat/completions", name, k.name)
		s.mu.Lock()
		s.answers[path] = a
		s.mu.Unlock()
		header := http.Header{
			"Content-Type": {"application/json"}, "Authorization": {"Bearer " + line("header Authorization")},
			"X-Api-Key": {line("header X-Api-Key")},
			"Api-Key":   {line("header Api-Key")}, "X-Goog-Api-Key": {line("header X-Goog-Api-Key")},
			"Cookie":     {"session=" + line("header Cookie")},
			"User-Agent": {"agent/1.0 " + line("header User-Agent")}, "Openai-Organization": {line("header Openai-Organization")},
			"Referer":          {"http://x/?key=" + line("header Referer")},
			"X-Llmtap-Service": {"checkout-agent"}, "X-Llmtap-Stage": {"planner"}, "X-Llmtap-Attr-Note": {url.PathEscape(line("attribute"))},
			"X-Llmtap-User": {line("label user")}, "Host": {"127.0.0.1"},
		}
		query := "?key=" + url.QueryEscape(line("query")) + "&api_key=" + url.QueryEscape(line("query api_key"))
		if r := s.c.do(s.T, "proxy", http.MethodPost, "/up"+path+query, s.json(s.request(k, from)), header); r.code != a.status {
			s.Fatalf("%s %s: %d %s", k.name, name, r.code, r.body)
		}
	}
}

// overHTTP sends events as a program without a hook does. Bodies are sent as they are with capture full, else none.
func (s *secretsTest) overHTTP(k secretKind) {
	s.Helper()
	const from = "HTTP"
	var events []object
	for i, body := range []any{s.response(k, from), json.RawMessage(s.rejection(k, from)), nil} {
		call := object{
			"exchange": fmt.Sprintf("http-%x-%d", k.name, i), "service": "checkout-agent", "stage": "planner",
			"attrs": object{"note": s.plant(k, from+" attribute")},
		}
		request, response := object{"kind": "request"}, object{"kind": "response", "status": []int{200, 400, 0}[i]}
		for name, v := range call {
			request[name], response[name] = v, v
		}
		userinfo := url.QueryEscape(s.plant(k, from+" URL password"))
		request["url"] = "https://app:" + userinfo + "@api.openai.com/v1/chat/completions?key=" + url.QueryEscape(s.plant(k, from+" URL query"))
		request["method"] = "POST"
		if s.capture == event.CaptureFull {
			request["body"] = s.request(k, from)
		}
		switch {
		case body == nil:
			response["error"] = "Post \"https://api.openai.com\": proxy says " + s.plant(k, from+" transport error")
		case s.capture == event.CaptureFull || i == 1:
			response["body"] = body
		}
		events = append(events, request, response)
	}
	r := s.c.do(s.T, "receive", http.MethodPost, "/v1/events", s.json(events), http.Header{"Content-Type": {"application/json"}, "Host": {"127.0.0.1"}})
	if r.code != http.StatusOK {
		s.Fatalf("%s: %d %s", k.name, r.code, r.body)
	}
}

// overOTLP exports a span of a call that is answered and one of a call that fails.
func (s *secretsTest) overOTLP(k secretKind) {
	s.Helper()
	const from = "OTLP"
	attribute := func(key, value string) object { return object{"key": key, "value": object{"stringValue": value}} }
	parts := func(place string) string { return "use " + s.plant(k, from+" body "+place) + " for it" }
	messages := func(role, place string) string {
		return s.json([]object{{"role": role, "parts": []object{{"type": "text", "content": parts(place)}}}})
	}
	id := sha256.Sum256([]byte(k.name))
	now := time.Now().UnixNano()
	span := func(n int, more ...object) object {
		return object{
			"traceId": hex.EncodeToString(id[:16]), "spanId": hex.EncodeToString(id[16+n : 24+n]), "name": "chat gpt-5", "kind": 3,
			"startTimeUnixNano": fmt.Sprint(now - 1e9), "endTimeUnixNano": fmt.Sprint(now),
			"attributes": append([]object{
				attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.provider.name", "openai"),
				attribute("gen_ai.request.model", "gpt-5"),
				attribute("gen_ai.input.messages", messages("user", "input")),
				attribute("gen_ai.system_instructions", s.json([]object{{"type": "text", "content": parts("system")}})),
				attribute("url.full", "https://app:"+s.plant(k, from+" URL password")+"@api.openai.com/v1/chat/completions?key="+s.plant(k, from+" URL query")),
				attribute("http.request.header.authorization", "Bearer "+s.plant(k, from+" header")),
				attribute("user_agent.original", s.plant(k, from+" user agent")),
				attribute("user.id", s.plant(k, from+" user")), attribute("note", s.plant(k, from+" attribute")),
			}, more...),
		}
	}
	failed := span(1, attribute("error.type", "BadRequestError"), attribute("http.response.status_code", "400"))
	failed["status"] = object{"code": 2, "message": "Incorrect API key provided: " + s.plant(k, from+" error status")}
	failed["events"] = []object{{"name": "exception", "timeUnixNano": fmt.Sprint(now), "attributes": []object{
		attribute("exception.type", "BadRequestError"),
		attribute("exception.message", "Error code: 400 - bad key: "+s.plant(k, from+" error message")),
		attribute("exception.stacktrace", "File x, in y: "+s.plant(k, from+" error stack")),
	}}}
	spans := []object{span(0, attribute("gen_ai.output.messages", messages("assistant", "output"))), failed}
	payload := object{"resourceSpans": []object{{
		"resource": object{"attributes": []object{
			attribute("service.name", "checkout-agent"),
			attribute("process.command_args", s.plant(k, from+" resource")),
		}},
		"scopeSpans": []object{{"scope": object{"name": "test"}, "spans": spans}},
	}}}
	r := s.c.do(s.T, "receive", http.MethodPost, "/v1/traces", s.json(payload), http.Header{"Content-Type": {"application/json"}, "Host": {"127.0.0.1"}})
	if r.code != http.StatusOK || strings.Contains(r.body, "rejected") {
		s.Fatalf("%s: %d %s", k.name, r.code, r.body)
	}
}

// waitStored waits until all calls are stored and Slack has a message about them.
func (s *secretsTest) waitStored() {
	s.Helper()
	want := uint64(len(secretKinds) * (4 + 3 + 2))
	var stored uint64
	must.Wait(s.T, fmt.Sprintf("%d calls are stored, and Slack has a message", want), func() bool {
		if res, err := s.c.rows.query(s.Context(), "SELECT count() FROM exchanges_final"); err == nil {
			stored = res.Rows[0][0].(uint64)
		}
		return stored >= want && len(s.slack.Messages()) > 0
	}, func() any { return stored })
	time.Sleep(2 * time.Second) // further messages, and rows of conversations
}
