package slack

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/ingest/loopback"
)

// maxRequest is the maximum size of a request body in bytes.
const maxRequest = 1 << 20

// A Config describes the workspace.
type Config struct {
	// Channels are the names of the public channels, without "#". Default: "alerts". Their ids are C00000001 and up, in
	// this order.
	Channels []string
	// OnPost, if set, is called for every new message and every update. It must not block.
	OnPost func(Message)
}

// A Message is one message of a channel or a thread.
type Message struct {
	Channel     string // id
	TS          string // identifies the message in its channel
	ThreadTS    string // TS of the first message of the thread, or ""
	Text        string
	Blocks      json.RawMessage // as posted; nil if none
	Attachments json.RawMessage
	Metadata    json.RawMessage
	ReceivedAt  time.Time // time of the first post
	UpdatedAt   time.Time // time of the last update, or zero
	Updates     int
}

// A Server is a workspace. It is safe for concurrent use.
type Server struct {
	cfg     Config
	sockets sockets
	page    http.Handler // the web page and its presses

	mu       sync.Mutex // guards the fields below
	host     string     // Host of the latest API request
	messages []*Message // in posting order
	last     int64      // microseconds of the newest TS
}

// New returns an empty workspace.
func New(cfg Config) *Server {
	if len(cfg.Channels) == 0 {
		cfg.Channels = []string{"alerts"}
	}
	s := &Server{cfg: cfg}
	s.sockets.pending, s.sockets.targets = map[string]chan struct{}{}, map[string]Note{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("POST /press", s.servePress)
	s.page = http.NewCrossOriginProtection().Handler(mux) // another web page cannot press
	return s
}

// Messages returns all messages in their current state, oldest first.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := make([]Message, len(s.messages))
	for i, m := range s.messages {
		ms[i] = *m
	}
	return ms
}

// A refusal is the value of "error" in an answer.
type refusal string

func (r refusal) Error() string { return string(r) }

// fields contains the members of an answer except "ok".
type fields map[string]any

// ServeHTTP implements http.Handler for POST and GET /api/<method>, Socket Mode connections, response URLs and the web page.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !loopback.Is(r.Host):
		http.Error(w, "this server is only for loopback", http.StatusForbidden)
		return
	case r.URL.Path == "/link":
		s.sockets.connect(w, r)
		return
	case strings.HasPrefix(r.URL.Path, "/actions/"):
		s.sockets.respond(w, r)
		return
	case !strings.HasPrefix(r.URL.Path, "/api/"):
		s.page.ServeHTTP(w, r)
		return
	}
	answer, err := s.call(w, r)
	if answer == nil {
		answer = fields{}
	}
	answer["ok"] = err == nil
	if err != nil {
		answer["error"] = err.Error()
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(answer) // fails only if the client disconnected
}

func (s *Server) call(w http.ResponseWriter, r *http.Request) (fields, error) {
	method, ok := strings.CutPrefix(r.URL.Path, "/api/")
	if !ok {
		return nil, refusal("unknown_method")
	}
	args, err := arguments(w, r)
	if err != nil {
		return nil, err
	}
	token := args.Get("token")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		token = bearer
	}
	switch {
	case token == "":
		return nil, refusal("not_authed")
	case !strings.HasPrefix(token, "xox") && !strings.HasPrefix(token, "xapp-"):
		return nil, refusal("invalid_auth")
	}
	w.Header().Set("X-OAuth-Scopes", "chat:write,channels:read,channels:history,users:read")
	s.mu.Lock()
	s.host = r.Host
	s.mu.Unlock()
	switch method {
	case "apps.connections.open":
		if !strings.HasPrefix(token, "xapp-") {
			return nil, refusal("not_allowed_token_type")
		}
		return openConnection(r), nil
	case "users.info":
		return fields{"user": person(args.Get("user"))}, nil
	case "auth.test":
		return fields{"url": "https://demo.slack.test/", "team": "Demo", "user": "llmtap", "team_id": "T00000001", "user_id": "U00000001", "bot_id": "B00000001"}, nil
	case "chat.postMessage":
		return s.post(args)
	case "chat.update":
		return s.update(args)
	case "chat.getPermalink":
		return s.permalink(args)
	case "conversations.list":
		return s.list(), nil
	case "conversations.info", "conversations.join":
		return s.info(args)
	case "conversations.history":
		return s.history(args, "")
	case "conversations.replies":
		return s.history(args, args.Get("ts"))
	}
	return nil, refusal("unknown_method")
}

// arguments reads a form or a JSON object; nested JSON remains text, as in a form.
func arguments(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		if err := r.ParseForm(); err != nil {
			return nil, refusal("invalid_form_data")
		}
		return r.Form, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, refusal("request_timeout")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil && len(body) > 0 {
		return nil, refusal("invalid_json")
	}
	args := make(url.Values)
	for k, raw := range object {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		args.Set(k, text)
	}
	return args, nil
}
