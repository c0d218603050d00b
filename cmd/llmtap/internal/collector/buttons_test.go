package collector

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A socketMode adds Socket Mode to a Slack workspace.
type socketMode struct {
	*slack.Server
	t     *testing.T
	mu    sync.Mutex // guards the rest
	conns []*websocket.Conn
	acked map[string]bool
}

func (s *socketMode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/apps.connections.open":
		fmt.Fprintf(w, `{"ok":true,"url":"ws://%s/link"}`, r.Host)
	case "/link":
		conn, err := (&websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}).Upgrade(w, r, nil)
		if err != nil {
			s.t.Error(err)
			return
		}
		defer conn.Close()
		_ = conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"hello","num_connections":1,"connection_info":{"app_id":"A1"}}`))
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		for {
			var ack struct {
				EnvelopeID string `json:"envelope_id"`
			}
			if conn.ReadJSON(&ack) != nil {
				return
			}
			s.mu.Lock()
			s.acked[ack.EnvelopeID] = true
			s.mu.Unlock()
		}
	default:
		s.Server.ServeHTTP(w, r)
	}
}

// connections returns the number of connections that were opened.
func (s *socketMode) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *socketMode) acknowledged(envelope string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked[envelope]
}

// press delivers a press of the button, or the option of a menu, with this label to a connection.
func (s *socketMode) press(conn int, id, label string) {
	s.t.Helper()
	m := s.Messages()[0]
	var blocks []struct {
		Elements []struct {
			Type     string
			Text     json.RawMessage // a text object, or a string in small print
			Value    string
			ActionID string `json:"action_id"`
			Options  []struct {
				Text  struct{ Text string }
				Value string
			}
		}
	}
	must.Do(s.t, json.Unmarshal(m.Blocks, &blocks))
	for _, b := range blocks {
		for _, e := range b.Elements {
			action := map[string]any{"type": e.Type, "action_id": e.ActionID, "block_id": "b1", "action_ts": id}
			var text struct{ Text string }
			_ = json.Unmarshal(e.Text, &text) // not a button
			pressed := text.Text == label
			if pressed {
				action["value"] = e.Value
			}
			for _, o := range e.Options {
				if o.Text.Text == label {
					pressed, action["selected_option"] = true, map[string]any{"text": map[string]string{"type": "plain_text", "text": label}, "value": o.Value}
				}
			}
			if !pressed {
				continue
			}
			frame := map[string]any{"type": "interactive", "envelope_id": id, "payload": map[string]any{
				"type": "block_actions", "user": map[string]string{"id": "U0000ANNA", "name": "anna", "team_id": "T00000001"}, "team": map[string]string{"id": "T00000001"},
				"container": map[string]string{"type": "message", "message_ts": m.TS, "channel_id": m.Channel}, "actions": []any{action},
			}}
			s.mu.Lock()
			defer s.mu.Unlock()
			must.Do(s.t, s.conns[conn].WriteJSON(frame))
			return
		}
	}
	s.t.Fatalf("the message has no %q: %s", label, m.Blocks)
}

// shows waits until the message contains a text, and returns how long that took.
func (s *socketMode) shows(what string, since time.Time) time.Duration {
	s.t.Helper()
	must.Wait(s.t, what, func() bool { m := s.Messages(); return len(m) > 0 && strings.Contains(string(m[0].Blocks), what) },
		func() any { return s.Messages() })
	return time.Since(since)
}

// Two processes: a press that arrives at the one that does not notify is stored, and the other one edits the message at
// once. After a take-over, the acknowledgement and the silence still hold.
func TestButtons(t *testing.T) {
	t.Parallel()
	s := &socketMode{Server: slack.New(slack.Config{Channels: []string{"oncall"}}), t: t, acked: map[string]bool{}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	natsURL := collectortest.StartNATS(t, "")
	conn := collectortest.ConnectNATS(t, natsURL, nil)
	start := func() (stop func()) {
		t.Helper()
		before := s.connections()
		c := open(t, func(cfg *config.Config) {
			cfg.Roles, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{config.RoleAlert}, natsURL, "http://127.0.0.1:1/llmtap"
			cfg.Batcher.DrainTimeout = noStore
			cfg.Slack.Token, cfg.Slack.AppToken, cfg.Slack.Channel, cfg.Slack.APIURL = "xoxb-1", "xapp-1", "#oncall", srv.URL+"/api/"
		})
		end := must.Run(t, c.Run)
		stop = sync.OnceFunc(func() { end(); c.Close() })
		t.Cleanup(stop)
		must.Wait(t, "a Socket Mode connection", func() bool { return s.connections() != before })
		return stop
	}
	stopLeader := start()
	now := time.Now().Unix()
	for i := now - 300; i < now; i++ {
		tally := analyzer.Tally{Second: i}
		if i >= now-60 {
			kv := map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "service_version": "2.4.0"}
			failed := map[string]string{"status": "400", "cause": "orphan_tool_reply"}
			maps.Copy(failed, kv)
			tally.Counts = []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: kv, N: 5}, {Metric: analyzer.MetricFailed, Labels: failed, N: 2}}
		}
		payload := must.Get(json.Marshal(&tally))(t)
		must.Do(t, conn.PublishTally(t.Context(), 0, 1, i, payload))
	}
	s.shows("Acknowledge", time.Now())
	start()
	began := time.Now()
	s.press(1, "e1", "Acknowledge")
	acknowledged := s.shows("Acknowledged by \\u003c@U0000ANNA\\u003e", began)
	s.press(1, "e4", "Assign to me")
	s.shows("Assigned to \\u003c@U0000ANNA\\u003e", time.Now())
	s.press(1, "e5", "in 2.4.0, the newest")
	s.shows("Fixed in `2.4.0`, says anna", time.Now())
	s.press(1, "e6", "Not fixed")
	s.shows("Fixed…", time.Now())
	began = time.Now()
	s.press(1, "e2", "for 4 hours")
	silenced := s.shows("Silenced by anna until", began)
	t.Logf("shown after %s and %s", acknowledged.Round(time.Millisecond), silenced.Round(time.Millisecond))
	if max(acknowledged, silenced) > 5*time.Second {
		t.Errorf("shown after %s and %s", acknowledged, silenced)
	}
	stopLeader()
	began = time.Now()
	s.press(1, "e3", "Unsilence")
	t.Logf("unsilenced after a take-over in %s", s.shows("Silence\"", began).Round(time.Millisecond))
	for _, id := range []string{"e1", "e2", "e3", "e4", "e5", "e6"} {
		must.Wait(t, id+" is acknowledged", func() bool { return s.acknowledged(id) })
	}
	must.Contain(t, string(s.Messages()[0].Blocks), "Acknowledged by", "the acknowledgement")
}
