package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A workspace is a Slack with Socket Mode: the methods of fake, apps.connections.open, and WebSockets that speak Slack's
// wire format.
type workspace struct {
	*fake
	url string

	mu        sync.Mutex                            // guards the rest
	open      func(n int) (status int, body string) // may replace the answer of apps.connections.open
	greet     bool                                  // connections begin with hello
	opens     int
	connects  int
	conns     []*websocket.Conn // open ones, in order of opening
	acked     map[string]int    // by envelope id
	ephemeral []string          // messages that only the presser sees
	deaf      bool              // response URLs do not answer
	group     func() string     // answer of usergroups.users.list
	lookups   int               // calls of it
	zone      string            // of all users; empty: the scope is missing
}

func newWorkspace(t *testing.T) (*workspace, Config) {
	t.Helper()
	f, cfg := newSlack(t)
	w := &workspace{fake: f, greet: true, acked: map[string]int{}, zone: "Europe/Berlin"}
	srv := httptest.NewServer(w)
	t.Cleanup(func() {
		w.closeAll()
		srv.Close()
	})
	w.url, cfg.APIURL, cfg.AppToken = srv.URL, srv.URL+"/api", "xapp-1-test"
	return w, cfg
}

func (w *workspace) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	w.mu.Lock()
	defer w.mu.Unlock()
	status, answer := http.StatusOK, ""
	switch {
	case r.URL.Path == "/link":
		w.connect(rw, r)
		return
	case strings.HasPrefix(r.URL.Path, "/actions/"):
		body, _ := io.ReadAll(r.Body)
		if w.deaf {
			status = http.StatusServiceUnavailable
		} else {
			var m struct {
				Text string
				Type string `json:"response_type"`
			}
			if err := json.Unmarshal(body, &m); err != nil || m.Type != "ephemeral" || r.Header.Get("Authorization") != "" {
				w.t.Errorf("reply %s, %v", body, err)
			}
			w.ephemeral = append(w.ephemeral, m.Text)
		}
		answer = "ok"
	case method == "apps.connections.open":
		w.opens++
		must.Equal(w.t, r.Header.Get("Authorization"), "Bearer xapp-1-test", "%s with", method)
		answer = fmt.Sprintf(`{"ok":true,"url":"ws%s/link?ticket=secret-ticket&app_id=A1"}`, strings.TrimPrefix(w.url, "http"))
		if w.open != nil {
			if s, body := w.open(w.opens); s != 0 {
				status, answer = s, body
				rw.Header().Set("Retry-After", "0")
			}
		}
	case method == "auth.test":
		answer = `{"ok":true,"team":"Acme","user":"llmtap","team_id":"T1","user_id":"U1"}`
	case method == "users.info" && w.zone == "":
		answer = `{"ok":false,"error":"missing_scope","needed":"users:read"}`
	case method == "users.info":
		answer = fmt.Sprintf(`{"ok":true,"user":{"id":"U1","tz":%q,"tz_label":"x","tz_offset":3600}}`, w.zone)
	case method == "usergroups.users.list":
		w.lookups++
		answer = w.group()
	default:
		w.fake.ServeHTTP(rw, r)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, answer)
}

// connect upgrades a connection, and reads acknowledgements from it. The caller holds w.mu.
func (w *workspace) connect(rw http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(rw, r, nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	if w.greet {
		_ = conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello","num_connections":1,`+
			`"debug_info":{"host":"applink-7fc4fdbb64-4x5xq","build_number":10,"approximate_connection_time":18060},"connection_info":{"app_id":"A1"}}`))
	}
	w.connects++
	w.conns = append(w.conns, conn)
	go func() {
		for {
			var ack struct {
				EnvelopeID string `json:"envelope_id"`
			}
			err := conn.ReadJSON(&ack)
			w.mu.Lock()
			if err != nil {
				for i, c := range w.conns {
					if c == conn {
						w.conns = append(w.conns[:i:i], w.conns[i+1:]...)
					}
				}
				w.mu.Unlock()
				conn.Close()
				return
			}
			w.acked[ack.EnvelopeID]++
			w.mu.Unlock()
		}
	}()
}

// send writes a frame to one of the connections.
func (w *workspace) send(i int, frame string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.conns[i].WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		w.t.Error(err)
	}
}

func (w *workspace) closeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
}

// get reads a value under the lock.
func get[T any](w *workspace, f func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f()
}

func (w *workspace) connections() int   { return get(w, func() int { return len(w.conns) }) }
func (w *workspace) acks(id string) int { return get(w, func() int { return w.acked[id] }) }
func (w *workspace) told() string {
	return get(w, func() string { return plainText(strings.Join(w.ephemeral, "\n")) })
}

// A user of Slack.
type user struct{ id, name, team string }

var (
	anna = user{"U0000ANNA", "anna", "T1"}
	bob  = user{"U00000BOB", "bob", "T1"}
)

// callback returns the payload of a press on an element of the latest message in the channel, as Slack sends it. choice is
// the label of an option.
func (w *workspace) callback(by user, action, choice, ts string) string {
	w.t.Helper()
	messages := w.top()
	m := messages[len(messages)-1]
	var blocks []struct {
		Type     string           `json:"type"`
		Elements []map[string]any `json:"elements"`
	}
	must.Do(w.t, json.Unmarshal([]byte(m.Blocks), &blocks))
	for _, b := range blocks {
		for _, e := range b.Elements {
			if b.Type != "actions" || e["action_id"] != "llmtap_"+action {
				continue
			}
			e["action_ts"], e["block_id"] = ts, "b1"
			if options, ok := e["options"].([]any); ok {
				for _, o := range options {
					if o := o.(map[string]any); o["text"].(map[string]any)["text"] == choice {
						e["selected_option"] = o
					}
				}
				delete(e, "options")
			}
			element := must.Get(json.Marshal(e))(w.t)
			return payload(by, m.TS, w.url+"/actions/T1/1/x", string(element))
		}
	}
	w.t.Fatalf("the message has no %s: %s", action, m.Blocks)
	return ""
}

func payload(by user, messageTS, responseURL, element string) string {
	return fmt.Sprintf(`{"type":"block_actions","user":{"id":%q,"username":%[2]q,"name":%[2]q,"team_id":%[3]q},"api_app_id":"A1","token":"x",
"container":{"type":"message","message_ts":%[4]q,"channel_id":"C123","is_ephemeral":false},"trigger_id":"1.2.x","team":{"id":"T1","domain":"acme"},
"enterprise":null,"is_enterprise_install":false,"channel":{"id":"C123","name":"alerts"},"message":{"type":"message","ts":%[4]q,"text":"x",
"blocks":[{"type":"section","block_id":"s","text":{"type":"mrkdwn","text":"x"}}]},"state":{"values":{}},"response_url":%[5]q,"actions":[%[6]s]}`,
		by.id, by.name, by.team, messageTS, responseURL, element)
}

// press delivers a press to a connection.
func (w *workspace) press(conn int, envelope, payload string) {
	w.t.Helper()
	w.send(conn, fmt.Sprintf(`{"envelope_id":%q,"payload":%s,"type":"interactive","accepts_response_payload":false}`, envelope, payload))
}

// testControls are Controls in memory.
type testControls struct {
	mu       sync.Mutex
	g        alerts.Group
	silences []silence.Silence
	log      []string // calls that changed something, and refusals
	err      error
	block    chan struct{} // if not nil, changes wait until it is closed
	waiting  atomic.Int32  // changes that have begun
}

var _ alerts.Controls = (*testControls)(nil)

func (c *testControls) group() alerts.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.g
	g.Alerts = append([]alerts.Alert(nil), g.Alerts...)
	for i := range g.Alerts {
		for _, s := range c.silences {
			if s.Active(time.Now()) && s.Matches(g.Alerts[i].Name, g.Alerts[i].Labels) {
				g.Alerts[i].Silence = &s
			}
		}
	}
	return g
}

func (c *testControls) Group(_ context.Context, id string) (alerts.Group, bool, error) {
	g := c.group()
	return g, alerts.GroupID(g.Key) == id, c.err
}

func (c *testControls) change(ctx context.Context, what string, by alerts.Actor, f func()) error {
	c.waiting.Add(1)
	if c.block != nil {
		select {
		case <-c.block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.log = append(c.log, fmt.Sprintf("%s by %s (%s, %s)", what, by.Name, by.ID, by.Via))
	f()
	return nil
}

func (c *testControls) Acknowledge(ctx context.Context, a alerts.Ack, via string) error {
	return c.change(ctx, "acknowledge "+a.Group, alerts.Actor{ID: a.By, Name: a.ByName, Via: via}, func() {
		if c.g.Ack == nil {
			c.g.Ack = &a
		}
	})
}

func (c *testControls) Unacknowledge(ctx context.Context, group string, _ time.Time, by alerts.Actor) error {
	return c.change(ctx, "unacknowledge "+group, by, func() { c.g.Ack = nil })
}

func (c *testControls) AddSilence(ctx context.Context, s silence.Silence, _ string, by alerts.Actor) (silence.Silence, error) {
	if err := s.Validate(); err != nil {
		return s, err
	}
	return s, c.change(ctx, fmt.Sprintf("silence %s for %s: %s", s.Matchers, s.EndsAt.Sub(s.StartsAt).Round(time.Second), s.Comment), by, func() {
		for _, old := range c.silences {
			if old.ID == s.ID {
				c.log = append(c.log, "the same silence")
				return
			}
		}
		c.silences = append(c.silences, s)
	})
}

func (c *testControls) Expr(a *alerts.Alert) string {
	return "rate(" + a.Name + ") > 0"
}

func (c *testControls) ExpireSilence(ctx context.Context, id string, by alerts.Actor) error {
	return c.change(ctx, "expire", by, func() {
		for i := range c.silences {
			if c.silences[i].ID == id {
				c.silences[i].EndsAt = time.Now()
			}
		}
	})
}

func (c *testControls) Refuse(ctx context.Context, action, group, reason string, by alerts.Actor) error {
	return c.change(ctx, fmt.Sprintf("refuse %s of %s: %s", action, group, reason), by, func() {})
}

func (c *testControls) Record(ctx context.Context, action, group, comment string, by alerts.Actor) error {
	return c.change(ctx, fmt.Sprintf("record %s of %s: %s", action, group, comment), by, func() {})
}

func (c *testControls) Silences() []silence.Silence {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]silence.Silence(nil), c.silences...)
}

func (c *testControls) calls() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.log, "\n")
}

// A process is one llmtap with the role alert.
type process struct {
	n      *Notifier
	s      *socket
	reg    *prometheus.Registry
	mu     sync.Mutex
	report []string // changes
}

// start runs a process until the test ends.
func start(t *testing.T, cfg Config, c alerts.Controls, change func(*socket)) *process {
	t.Helper()
	p := &process{reg: prometheus.NewRegistry()}
	tr := &http.Transport{}
	list, err := cfg.Receivers(alerts.NotifierOptions{
		Controls: c, Registerer: p.reg, GroupBy: []string{"service", "environment", "stage"},
		Client: &http.Client{Transport: tr, Timeout: 2 * time.Second},
	})
	must.Do(t, err)
	p.n = list[0].Notifier.(*Notifier)
	p.s = p.n.socket
	p.s.retry = func() backoff.BackOff { return backoff.NewConstantBackOff(10 * time.Millisecond) }
	if change != nil {
		change(p.s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		list[0].Serve(ctx, func(err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			text := "works"
			if err != nil {
				text = err.Error()
			}
			if len(p.report) == 0 || p.report[len(p.report)-1] != text {
				p.report = append(p.report, text)
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		tr.CloseIdleConnections()
	})
	return p
}

func (p *process) reports() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.report, "\n")
}

var errDown = errors.New("nats: no servers available for connection")
