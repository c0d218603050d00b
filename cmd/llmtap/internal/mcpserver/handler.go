package mcpserver

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/remote"
	"github.com/llmtap/llmtap/dashboards/access"
)

// Path is the path of the Handler.
const Path = "/mcp"

const (
	maxBody      = 4 << 20          // bytes of a request
	readTimeout  = 10 * time.Second // for the request
	writeTimeout = time.Minute      // for the response
)

// NewHandler returns a handler of streamable HTTP. It does not control access, but for tools that change something. A request with
// the parameter content=true is answered with texts of messages, whatever o.Content is: whoever may send it may also read the web
// pages. One with act=true has the tools that change something, and needs the role of a responder. It keeps no sessions, so that any
// process can answer any request.
func NewHandler(o Options) http.Handler {
	slots := make(chan struct{}, maxCalls)
	type kind struct{ content, act bool }
	servers := map[kind]*mcp.Server{}
	for _, k := range []kind{{}, {content: true}, {act: true}, {true, true}} {
		o.Content, o.Act = k.content, k.act
		servers[k] = newServer(o, slots)
	}
	of := func(r *http.Request) kind {
		query := r.URL.Query()
		return kind{query.Get("content") == "true", query.Get("act") == "true"}
	}
	h := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return servers[of(r)] }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, Logger: o.Logger, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // the guard of the listener checks the name of the host
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := access.From(r.Context()); of(r).act && who.Role < access.Responder {
			http.Error(w, "act=true needs the role "+access.Responder.String()+", and this is a request of the role "+who.Role.String(), http.StatusForbidden)
			return
		}
		if of(r).content && !access.ScopeOf(r.Context()).Texts() {
			http.Error(w, access.ErrTexts.Error(), http.StatusForbidden)
			return
		}
		r.Header.Set(remote.HeaderActor, remote.Actor(r).ID)
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetReadDeadline(time.Now().Add(readTimeout)) // only a test's recorder has no deadlines, also below
		body, err := io.ReadAll(access.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, "the request is incomplete or larger than 4 MiB", http.StatusRequestEntityTooLarge)
			return
		}
		_ = deadlines.SetReadDeadline(time.Time{}) // the call may take longer
		r.Body = io.NopCloser(bytes.NewReader(body))
		_ = deadlines.SetWriteDeadline(time.Now().Add(callTimeout + writeTimeout))
		defer func() { _ = deadlines.SetWriteDeadline(time.Time{}) }() // for the next request on the connection
		h.ServeHTTP(w, r)
	})
}
