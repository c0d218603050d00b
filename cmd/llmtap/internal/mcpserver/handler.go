package mcpserver

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path is the path of the Handler.
const Path = "/mcp"

const (
	maxBody      = 4 << 20          // bytes of a request
	readTimeout  = 10 * time.Second // for the request
	writeTimeout = time.Minute      // for the response
)

// NewHandler returns a handler of streamable HTTP. It does not control access. A request with the parameter content=true is
// answered with texts of messages, whatever o.Content is: whoever may send it may also read the web pages. It keeps no sessions,
// so that any process can answer any request.
func NewHandler(o Options) http.Handler {
	slots := make(chan struct{}, maxCalls)
	servers := map[bool]*mcp.Server{}
	for _, content := range []bool{false, true} {
		o.Content = content
		servers[content] = newServer(o, slots)
	}
	h := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server { return servers[r.URL.Query().Get("content") == "true"] }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, Logger: o.Logger, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // the guard of the listener checks the name of the host
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadlines := http.NewResponseController(w)
		_ = deadlines.SetReadDeadline(time.Now().Add(readTimeout)) // only a test's recorder has no deadlines, also below
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
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
