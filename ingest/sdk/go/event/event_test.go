package event

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var sent = time.Date(2026, 11, 21, 3, 4, 5, 123456789, time.UTC)

// full returns an event of each kind with every field set.
func full() map[Kind]*Event {
	base := func(k Kind) *Event {
		return &Event{
			Kind: k, Exchange: "019aa4f2-5c1e-7b3a-9f00-0123456789ab", Time: sent,
			Labels: Labels{
				Service: "结账-service", ServiceVersion: "1.4.2+dirty", Environment: "prod eu", Agent: "planner agent",
				Stage: "规划器", Conversation: "c/1 %41", Run: "run-7", User: "a1b2",
			},
			Instance: "f00d", Seq: 41, Dropped: 3, Uncaptured: 7, UncapturedBy: "grpc=4 websocket=3",
			Attrs:   map[string]string{"team": "支付", "k8s.pod_name-1": "a b", "edge": " x "},
			Capture: CaptureFull, Origin: OriginHook, Degraded: true,
			ContentType: "application/json; charset=utf-8", ContentEncoding: "zstd",
			Part: 2, Parts: 3, BodyBytes: 1 << 20, SDK: "go/0.1.0", Body: []byte(`{"model":`),
		}
	}
	req, res, run, tool, hook := base(Request), base(Response), base(Run), base(Tool), base(Hook)
	req.URL, req.Method, req.APIVersion, req.Account = "https://api.openai.com/v1/chat/completions", "POST", "2023-06-01", "0a1b2c3d"
	req.Retry, req.Code, req.Traceparent = 2, "core/代理 agent.py:145 Agent.run", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	res.Status, res.Error, res.ProviderRequestID = 400, "read: connection reset\r\nby peer", "req_1"
	res.Duration, res.FirstByte, res.RateLimits = 12*time.Second+345678901, 1500*time.Microsecond, "requests=9999/10000/8.64s retry_after=20"
	run.RunStatus = StatusError
	tool.ToolCallID, tool.ToolStatus = "call_00_abc", StatusStarted
	hook.HookStatus = HookAlive
	return map[Kind]*Event{Request: req, Response: res, Run: run, Tool: tool, Hook: hook}
}

func TestRoundTrip(t *testing.T) {
	for kind, e := range full() {
		t.Run(kind.String(), func(t *testing.T) {
			h := e.Encode()
			for k, v := range h {
				if len(v) != 1 || len(v[0]) > MaxHeaderValue || strings.ContainsFunc(v[0], func(r rune) bool { return r < ' ' || r > '~' }) {
					t.Errorf("header %s is %q", k, v)
				}
			}
			got := must.Get(Decode(e.Subject(), h, e.Body))(t)
			if !reflect.DeepEqual(got, e) {
				t.Errorf("got %+v\nwant %+v", got, e)
			}
			must.Equal(t, &got.Body[0], &e.Body[0], "Decode copied the body")
		})
	}
}

// Encode writes exactly the headers of the kind.
func TestHeadersByKind(t *testing.T) {
	common := []string{
		HeaderMsgID, HeaderExchange, HeaderTime, HeaderService, HeaderServiceVersion, HeaderEnvironment, HeaderAgent, HeaderStage,
		HeaderConversation, HeaderRun, HeaderUser, HeaderInstance, HeaderSeq, HeaderDropped, HeaderUncaptured, HeaderUncapturedBy, HeaderCapture, HeaderOrigin, HeaderDegraded,
		HeaderPart, HeaderBodyBytes, HeaderSDK, HeaderContentType, HeaderContentEncoding,
		HeaderAttrPrefix + "team", HeaderAttrPrefix + "k8s.pod_name-1", HeaderAttrPrefix + "edge",
	}
	own := map[Kind][]string{
		Request:  {HeaderURL, HeaderMethod, HeaderAPIVersion, HeaderAccount, HeaderRetry, HeaderCode, HeaderTraceparent},
		Response: {HeaderStatus, HeaderError, HeaderDuration, HeaderFirstByte, HeaderProviderReq, HeaderRateLimits},
		Run:      {HeaderRunStatus},
		Tool:     {HeaderToolCallID, HeaderToolStatus},
		Hook:     {HeaderHookStatus},
	}
	for kind, e := range full() {
		want := map[string]bool{}
		for _, k := range append(own[kind], common...) {
			want[k] = true
		}
		got := map[string]bool{}
		for k := range e.Encode() {
			got[k] = true
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", kind, got, want)
		}
	}
}

func TestDecodeDefaults(t *testing.T) {
	body := []byte("{}")
	got := must.Get(Decode("llmtap.v1.request.unknown.00", Header{
		HeaderExchange: {"x"}, HeaderTime: {"2026-11-21T04:04:05.5+01:00"}, "X-New": {"1"}, HeaderPart: {"1/1"}, HeaderBodyBytes: {"7"},
		HeaderTraceparent: nil, HeaderAttrPrefix + "Bad Key": {"v"}, HeaderAttrPrefix + "empty": {""},
	}, body))(t)
	want := &Event{
		Kind: Request, Exchange: "x", Time: time.Date(2026, 11, 21, 3, 4, 5, 5e8, time.UTC), Labels: Labels{Service: UnknownService},
		Part: 1, Parts: 1, BodyBytes: 2, Body: body,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestDecodeInvalid(t *testing.T) {
	f := func(subject string, change func(Header), want string) {
		t.Helper()
		h := Header{HeaderExchange: {"x"}, HeaderTime: {"2026-11-21T03:04:05Z"}, HeaderStatus: {"200"}, HeaderService: {"s"}}
		if change != nil {
			change(h)
		}
		_, err := Decode(subject, h, nil)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", subject, err, want)
		}
	}
	set := func(k, v string) func(Header) { return func(h Header) { h[k] = []string{v} } }
	const req, res = "llmtap.v1.request.s.00", "llmtap.v1.response.s.00"
	f("orders.v1.request.s.00", nil, "is not llmtap.v1.")
	f("llmtap.v1.request.s", nil, "is not llmtap.v1.")
	f("llmtap.v1.request.s.00.1", nil, "is not llmtap.v1.")
	f("llmtap.v1.request..00", nil, "is not llmtap.v1.")
	f("llmtap.v1.embedding.s.00", nil, `unknown kind "embedding"`)
	f("llmtap.v1.request.s.xx", nil, "not two hex digits")
	f("llmtap.v1.request.s.7", nil, "not two hex digits")
	f(req, set(HeaderService, "other"), "Llmtap-Service is not the service of the subject")
	f(req, set(HeaderService, "S"), "Llmtap-Service is not the service of the subject")
	f(req, func(h Header) { delete(h, HeaderService) }, "Llmtap-Service is not the service of the subject")
	f(req, func(h Header) { delete(h, HeaderExchange) }, "Llmtap-Exchange is missing")
	f(req, func(h Header) { delete(h, HeaderTime) }, "Llmtap-Time is missing")
	f(req, set(HeaderTime, "yesterday"), "is not RFC 3339")
	f(req, set(HeaderTime, "0001-01-01T00:00:00Z"), "is not between")
	f(req, set(HeaderTime, "9999-12-31T23:59:59-01:00"), "is not between")
	f(req, set(HeaderRetry, "-1"), "Llmtap-Retry is not a number")
	f(req, set(HeaderRetry, "65536"), "Llmtap-Retry is not a number up to 65535")
	f(req, set(HeaderSeq, "1e3"), "Llmtap-Seq is not a number")
	f(req, set(HeaderSeq, "9223372036854775808"), "Llmtap-Seq is not a number")
	for _, v := range []string{"0/2", "3/2", "1", "1/", "a/b", "1/1025", "1/99999999999999999999", "+1/2", "1/2/3"} {
		f(req, set(HeaderPart, v), "Llmtap-Part is not i/n")
	}
	f(res, func(h Header) { delete(h, HeaderStatus) }, "Llmtap-Status is missing")
	f(res, set(HeaderStatus, "1000"), "Llmtap-Status is not a number")
	for _, v := range []string{"-1", "NaN", "Inf", "1e300", "ten"} {
		f(res, set(HeaderDuration, v), "Llmtap-Duration-Ms is not a duration")
	}
	f("llmtap.v1.run.s.00", nil, "Llmtap-Run is missing")
	f("llmtap.v1.run.s.00", set(HeaderRun, "r"), "Llmtap-Run-Status is missing")
	f("llmtap.v1.tool.s.00", nil, "Llmtap-Tool-Call-Id is missing")
	f("llmtap.v1.tool.s.00", set(HeaderToolCallID, "c"), "Llmtap-Tool-Status is missing")
}

func TestEscape(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		must.Equal(t, escape(in), want, "escape(%q)", in)
	}
	f("", "")
	f("planner v2", "planner v2")
	f("100%", "100%25")
	f(" a ", "%20a%20")
	f("a\r\nEvil: 1", "a%0D%0AEvil: 1")
	f("规划", "%E8%A7%84%E5%88%92")
	f("\xff\xe8\xa7", "%FF%E8%A7")
	f("\uFFFD", "%EF%BF%BD")
	f(strings.Repeat("x", 600), strings.Repeat("x", 512))
	f(strings.Repeat("x", 511)+"%", strings.Repeat("x", 511))
	f(strings.Repeat("x", 505)+"规", strings.Repeat("x", 505)) // never splits a character
	f(strings.Repeat("x", 503)+"规", strings.Repeat("x", 503)+"%E8%A7%84")
	f("x"+strings.Repeat(" ", 600)+"y", "x")
}

func TestUnescape(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		must.Equal(t, unescape(in), want, "unescape(%q)", in)
	}
	f("a%20b", "a b")
	f("%e8%a7%84", "规")
	f("100%", "100%")
	f("%4", "%4")
	f("%zz%41", "%zzA")
	f("raw 规", "raw 规")
	f(strings.Repeat("x", 600), strings.Repeat("x", 512))
}

func TestAttrsBounded(t *testing.T) {
	e := full()[Request]
	e.Attrs = map[string]string{"UPPER": "dropped", strings.Repeat("k", MaxAttrKey+1): "dropped", "empty": ""}
	h := e.Encode()
	want := map[string]string{}
	for i := range 50 {
		k := fmt.Sprintf("k%02d", i)
		e.Attrs[k] = "v"
		h[HeaderAttrPrefix+k] = []string{"v"}
		if i < MaxAttrs {
			want[k] = "v"
		}
	}
	got := must.Get(Decode(e.Subject(), e.Encode(), nil))(t)
	if !maps.Equal(got.Attrs, want) {
		t.Errorf("encoded %v, want %v", got.Attrs, want)
	}
	got = must.Get(Decode(e.Subject(), h, nil))(t)
	if !maps.Equal(got.Attrs, want) {
		t.Errorf("decoded %v, want %v", got.Attrs, want)
	}
}

func TestMessageID(t *testing.T) {
	f := func(e Event, want string) {
		t.Helper()
		must.Equal(t, e.Encode()[HeaderMsgID][0], want, "message ID")
	}
	f(Event{Kind: Request, Exchange: "x"}, "x.q.1")
	f(Event{Kind: Response, Exchange: "x", Part: 3, Parts: 4}, "x.s.3")
	f(Event{Kind: Run, Labels: Labels{Run: "r 1"}, RunStatus: StatusOK}, "r 1.ok")
	f(Event{Kind: Tool, Exchange: "x", ToolCallID: "c", ToolStatus: StatusError}, "c.x.error")
	f(Event{Kind: Request, Exchange: "x", Instance: "i", Origin: OriginHook}, "x.q.1")
	f(Event{Kind: Request, Exchange: "x", Instance: "i", Origin: OriginImport}, "x.q.1.i")

	// Truncated to 512 bytes these ids would be equal, and NATS would drop the end of the run.
	long := Labels{Run: strings.Repeat("跑", 300)}
	started := (&Event{Kind: Run, Labels: long, RunStatus: StatusStarted}).Encode()
	ended := (&Event{Kind: Run, Labels: long, RunStatus: StatusOK}).Encode()
	if started[HeaderMsgID][0] == ended[HeaderMsgID][0] || len(ended[HeaderMsgID][0]) > MaxHeaderValue {
		t.Errorf("ids of a long run: %q and %q", started[HeaderMsgID], ended[HeaderMsgID])
	}
}

func TestDurationsExact(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 999, 1_000_001, 12345678901, 86399_999_999_999, MaxDuration - 1, MaxDuration} {
		e := Event{Kind: Response, Exchange: "x", Time: sent, Status: 200, Duration: d, FirstByte: -d}
		if got := must.Get(Decode(e.Subject(), e.Encode(), nil))(t); got.Duration != d || got.FirstByte != 0 {
			t.Errorf("%v: got %+v", d, got)
		}
	}
}

func TestSubject(t *testing.T) {
	f := func(l Labels, want string) {
		t.Helper()
		e := Event{Kind: Request, Labels: l, Instance: "i"}
		must.Equal(t, e.Subject(), want, "Subject")
		kind, service, shard, err := ParseSubject(e.Subject())
		if err != nil || kind != Request || service != ServiceToken(l.Service) || shard != e.Shard() {
			t.Errorf("%q parsed as %v %q %02x %v", want, kind, service, shard, err)
		}
	}
	f(Labels{Service: "checkout", Conversation: "c1"}, fmt.Sprintf("llmtap.v1.request.checkout.%02x", ShardOf("c1")))
	f(Labels{Service: "a.b c", Conversation: "c1"}, fmt.Sprintf("llmtap.v1.request.a_b_c-%06x.%02x", fnv1a(fnvOffset, "a.b c")&0xffffff, ShardOf("c1")))
	f(Labels{Agent: "planner"}, fmt.Sprintf("llmtap.v1.request.unknown.%02x", ShardOf(UnknownService, "planner", "i")))
	f(Labels{Service: UnknownService, Agent: "planner"}, fmt.Sprintf("llmtap.v1.request.unknown.%02x", ShardOf(UnknownService, "planner", "i")))

	// A proxy instance has many clients.
	e := Event{Kind: Request, Labels: Labels{Service: "s", Agent: "planner"}, Instance: "i", Client: "10.0.0.7"}
	must.Equal(t, e.Subject(), fmt.Sprintf("llmtap.v1.request.s.%02x", ShardOf("s", "planner", "10.0.0.7")), "Subject")
}

// Published test vectors of 32-bit FNV-1a.
func TestFNV(t *testing.T) {
	for in, want := range map[string]uint32{"": 0x811c9dc5, "a": 0xe40c292c, "foobar": 0xbf9cf968} {
		must.Equal(t, fnv1a(fnvOffset, in), want, "fnv1a(%q)", in)
	}
	if ShardOf("a", "b") == ShardOf("ab") || ShardOf("a", "b") != ShardOf("a\x00b") {
		t.Error("parts of a shard key are not separated by a zero byte")
	}
}

func TestServiceToken(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"", "a", "a_b", "a.b", "a b", "结账", "结帐", "\xff", strings.Repeat("s", 32), strings.Repeat("s", 33), strings.Repeat("s", 34)} {
		tok := ServiceToken(name)
		if len(tok) == 0 || len(tok) > MaxServiceName || strings.ContainsAny(tok, ". *>") {
			t.Errorf("token of %q is %q", name, tok)
		}
		if other, ok := seen[tok]; ok {
			t.Errorf("%q and %q share the token %q", name, other, tok)
		}
		seen[tok] = name
	}
}

func TestKind(t *testing.T) {
	for k := KindUnknown; k <= Hook+1; k++ {
		if got := ParseKind(k.String()); k >= Request && k <= Hook && got != k || (k == KindUnknown || k > Hook) && got != KindUnknown {
			t.Errorf("%d: %q parses as %d", k, k, got)
		}
	}
}

func TestStageAndStreaming(t *testing.T) {
	l := Labels{Agent: "a"}
	must.Equal(t, l.StageOrAgent(), "a", "StageOrAgent does not default to the agent")
	l.Stage = "s"
	must.Equal(t, l.StageOrAgent(), "s", "StageOrAgent ignores the stage")
}

// Agents link this package, so it must not add dependencies.
func TestImportsStdlibOnly(t *testing.T) {
	files := must.Get(os.ReadDir("."))(t)
	imports := map[string]bool{}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		src := must.Get(parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly))(t)
		for _, i := range src.Imports {
			imports[i.Path.Value] = true
		}
	}
	for path := range maps.Keys(imports) {
		if strings.Contains(path, ".") {
			t.Errorf("package event imports %s", path)
		}
	}
}

// A URL is published without its query and its user, which may contain keys.
func TestWithoutSecrets(t *testing.T) {
	for url, want := range map[string]string{
		"https://a.example/v1/chat?key=k":       "https://a.example/v1/chat",
		"https://app:k@a.example/v1/users/a@b#": "https://a.example/v1/users/a@b",
		"https://app:k@y@a.example":             "https://a.example",
		"/v1/chat/a@b":                          "/v1/chat/a@b",
	} {
		e := &Event{Kind: Request, Exchange: "x", URL: url}
		must.Equal(t, e.Encode().get(HeaderURL), want, "%s is published as", url)
	}
}
