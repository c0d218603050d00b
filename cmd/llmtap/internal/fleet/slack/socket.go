package slack

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	// ackTimeout is the time after which Slack tells the person that the app did not respond.
	ackTimeout = 3 * time.Second
	// pingInterval is the interval of pings. The client closes a connection without them.
	pingInterval = 10 * time.Second
	writeTimeout = 2 * time.Second
	// maxNotes bounds the stored notes, and maxTargets the response URLs.
	maxNotes, maxTargets = 50, 1000
)

// ErrNoResponse means that no app has acknowledged a press.
var ErrNoResponse = errors.New("the app did not respond")

// The person who presses buttons.
const (
	personID = "U00000002"
	teamID   = "T00000001"
)

// A Note is a message that only the person sees who pressed a button.
type Note struct {
	Channel string // id
	TS      string // of the message with the button
	Text    string
	At      time.Time
}

// sockets are the Socket Mode connections of apps.
//
//	press ── envelope ──> one connection ──> app
//	  └── waits for <── acknowledgement ──────┘
type sockets struct {
	mu      sync.Mutex // guards the rest, and writes to the connections
	conns   []*websocket.Conn
	pending map[string]chan struct{} // by envelope id; closed by the acknowledgement
	notes   []Note
	targets map[string]Note // notes without text, by the path of a response URL
}

// Notes returns the messages that only the person sees, oldest first.
func (s *Server) Notes() []Note {
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	return slices.Clone(s.sockets.notes)
}

// openConnection answers apps.connections.open.
func openConnection(r *http.Request) fields {
	return fields{"url": "ws://" + r.Host + "/link?ticket=" + rand.Text()}
}

// connect serves one Socket Mode connection until it ends.
func (k *sockets) connect(w http.ResponseWriter, r *http.Request) {
	// slack-go sends Slack's origin. A web page cannot.
	up := websocket.Upgrader{CheckOrigin: func(r *http.Request) bool {
		return r.Header.Get("Origin") == "" || r.Header.Get("Origin") == "https://api.slack.com"
	}}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	defer func() { _ = conn.Close() }() // the peer may have closed it
	hello := fields{"type": "hello", "num_connections": 1, "connection_info": fields{"app_id": "A00000001"}, "debug_info": fields{"host": "demo", "approximate_connection_time": 3600}}
	k.mu.Lock()
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	err = conn.WriteJSON(hello)
	k.conns = append(k.conns, conn)
	k.mu.Unlock()
	stop := make(chan struct{})
	defer close(stop)
	go ping(conn, stop)
	for err == nil {
		var ack struct {
			EnvelopeID string `json:"envelope_id"`
		}
		if err = conn.ReadJSON(&ack); err == nil {
			k.acknowledged(ack.EnvelopeID)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns = slices.DeleteFunc(k.conns, func(c *websocket.Conn) bool { return c == conn })
}

// ping sends pings until stop is closed.
func ping(conn *websocket.Conn, stop <-chan struct{}) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			_ = conn.WriteControl(websocket.PingMessage, []byte("Ping from applink"), time.Now().Add(writeTimeout)) // a broken connection fails in ReadJSON
		}
	}
}

func (k *sockets) acknowledged(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if done := k.pending[id]; done != nil {
		close(done)
		delete(k.pending, id)
	}
}

// Press presses the element of a message with this action, as the person. option is the label of a menu's option. It returns
// when the app has acknowledged the press; the error is ErrNoResponse if it does not.
func (s *Server) Press(ctx context.Context, channel, ts, action, option string) error {
	s.mu.Lock()
	m := s.find(channel, ts)
	if m == nil {
		s.mu.Unlock()
		return refusal("message_not_found")
	}
	now := *m
	s.mu.Unlock()
	e, err := pressed(&now, action, option)
	if err != nil {
		return err
	}
	k := &s.sockets
	path := "/actions/" + teamID + "/1/" + rand.Text()
	body := fields{
		"type": "block_actions", "api_app_id": "A00000001", "token": "demo", "trigger_id": "1.2." + rand.Text(),
		"user":      fields{"id": personID, "username": "you", "name": "you", "team_id": teamID},
		"team":      fields{"id": teamID, "domain": "demo"},
		"container": fields{"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false},
		"channel":   fields{"id": channel, "name": s.channelName(channel)}, "enterprise": nil, "is_enterprise_install": false,
		"message": now.wire(), "state": fields{"values": fields{}}, "response_url": s.url(path), "actions": []any{e},
	}
	id, done := rand.Text(), make(chan struct{})
	k.mu.Lock()
	if len(k.conns) == 0 {
		k.mu.Unlock()
		return ErrNoResponse
	}
	if len(k.targets) >= maxTargets {
		clear(k.targets)
	}
	k.pending[id], k.targets[path] = done, Note{Channel: channel, TS: ts}
	conn := k.conns[len(k.conns)-1]
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	err = conn.WriteJSON(fields{"envelope_id": id, "type": "interactive", "accepts_response_payload": false, "payload": body})
	k.mu.Unlock()
	defer k.acknowledged(id)
	if err != nil {
		return ErrNoResponse
	}
	select {
	case <-done:
		return nil
	case <-time.After(ackTimeout):
		return ErrNoResponse
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pressed returns the element of m with this action, as the app receives it.
func pressed(m *Message, action, option string) (fields, error) {
	for i, b := range m.blocks() {
		for _, raw := range b.Elements {
			if b.Type != "actions" || raw.ActionID != action {
				continue
			}
			out := fields{"type": raw.Type, "action_id": action, "block_id": fmt.Sprint("b", i), "action_ts": fmt.Sprintf("%d.%06d", time.Now().Unix(), time.Now().Nanosecond()/1000)}
			if raw.Type == "button" {
				out["text"], out["value"] = raw.Text, raw.Value
				return out, nil
			}
			for _, o := range raw.Options {
				if textOf(o.Text) == option {
					out["selected_option"], out["placeholder"] = fields{"text": o.Text, "value": o.Value}, raw.Placeholder
					return out, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("the message has no button %q", action)
}

// respond stores a post to a response URL.
func (k *sockets) respond(w http.ResponseWriter, r *http.Request) {
	var m struct {
		Text string `json:"text"`
		Type string `json:"response_type"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n, ok := k.targets[r.URL.Path]
	if err != nil || !ok || m.Type != "ephemeral" || m.Text == "" {
		http.Error(w, "no_text or used_url", http.StatusNotFound)
		return
	}
	n.Text, n.At = m.Text, time.Now()
	if k.notes = append(k.notes, n); len(k.notes) > maxNotes {
		k.notes = k.notes[1:]
	}
	_, _ = io.WriteString(w, "ok") // the app has gone
}

// url returns the address of a path, on the host that the last request named.
func (s *Server) url(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "http://" + s.host + path
}

// channelName returns the name of the channel with this id.
func (s *Server) channelName(id string) string {
	for i, name := range s.cfg.Channels {
		if channelID(i) == id {
			return name
		}
	}
	return strings.ToLower(id)
}
