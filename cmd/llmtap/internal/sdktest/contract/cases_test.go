package contract

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A contractCase is one entry of ingest/sdk/testdata/cases*.json.
type contractCase struct {
	Name  string
	About string

	// The request of a raw transport, or the parameters of an SDK.
	Request *struct {
		Path     string
		Headers  map[string]string
		Body     text
		Encoding string // with which the agent compresses Body
	}
	Chat json.RawMessage
	Fill int // bytes of text for the @ in Chat

	Answers []answer // one per request, the last also for later requests; without any, the strict provider responds

	Clients []string // of Python, by default all raw transports
	Node    []string // clients of Node.js, by default all raw transports
	Go      []string // SDKs for Go: openai, go-openai, anthropic
	Labels  labels
	Capture []string // by default all modes

	How      string  // read (all at once), stream (in pieces), close or cancel (after the first piece)
	Parallel int     // concurrent calls, each with a number after its conversation
	Times    int     // calls in sequence
	Retries  int     // retries of an SDK
	Timeout  float64 // seconds
	Tool     string  // id of a tool call between two calls, in a run

	NATS        string `json:"nats"` // late or restarted; by default NATS is up
	MemoryLimit int64  `json:"memory_limit"`

	Error   string // class of Llmtap-Error, by default none; see errorClass
	Results *bool  // false: the results of the agent depend on the client
}

type labels struct {
	Agent        string            `json:"agent,omitempty"`
	Stage        string            `json:"stage,omitempty"`
	Conversation string            `json:"conversation,omitempty"`
	Run          string            `json:"run,omitempty"`
	User         string            `json:"user,omitempty"`
	Attrs        map[string]string `json:"attrs,omitempty"`
}

// text is Text or Base64; an @ in Text is replaced with Fill bytes.
type text struct {
	Text   string
	Base64 []byte
	Fill   int
}

// bytes returns the text.
func (t *text) bytes() []byte {
	if t.Base64 != nil {
		return t.Base64
	}
	if t.Fill > 0 {
		return []byte(fill(t.Text, t.Fill))
	}
	return []byte(t.Text)
}

// fill puts n bytes of text for the @ in s.
func fill(s string, n int) string {
	const word = "规划 plan 😀, "
	return strings.Replace(s, "@", strings.Repeat(word, n/len(word)), 1)
}

// An answer is the response of the provider to a request.
type answer struct {
	Status   int
	Headers  map[string]string
	Body     *text
	Events   []string // a body in pieces, without a length
	Encoding string   // of the body: gzip, br, deflate
	Short    int      // bytes missing at the end of the encoded body
	Length   int      // Content-Length, if not that of the body
	End      string   // reset, hold (no more data) or refused (no connection)
}

// pieces returns the body as sent over the network, and whether it has a Content-Length.
func (a *answer) pieces(t testing.TB) (pieces [][]byte, sized bool) {
	for _, e := range a.Events {
		pieces = append(pieces, []byte(e))
	}
	if a.Body != nil {
		pieces, sized = [][]byte{a.Body.bytes()}, true
	}
	if a.Encoding != "" {
		whole := encode(t, a.Encoding, bytes.Join(pieces, nil))
		pieces = [][]byte{whole[:len(whole)-a.Short]}
	}
	return pieces, sized
}

func encode(t testing.TB, encoding string, body []byte) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "":
		return body
	case "gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	default:
		t.Fatalf("encoding %q", encoding)
	}
	must.Get(w.Write(body))(t)
	must.Do(t, w.Close())
	return b.Bytes()
}

// decode is the inverse of encode. With an error it returns the bytes before the fault.
func decode(encoding string, body []byte) ([]byte, error) {
	var r io.Reader
	var err error
	switch encoding {
	case "gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "br":
		r = brotli.NewReader(bytes.NewReader(body))
	case "deflate":
		r, err = zlib.NewReader(bytes.NewReader(body))
	default:
		return body, nil
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// readCases returns the cases of each file.
func readCases(t testing.TB) map[string][]contractCase {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "ingest", "sdk", "testdata", "cases_*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	all := make(map[string][]contractCase)
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		var f struct{ Cases []contractCase }
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		must.Do(t, d.Decode(&f), file)
		for i := range f.Cases {
			f.Cases[i].setDefaults()
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "cases_"), ".json")
		all[name] = f.Cases
	}
	return all
}

// setDefaults sets the defaults.
func (c *contractCase) setDefaults() {
	if c.Clients == nil {
		c.Clients = []string{"httpx", "httpx-async", "requests", "aiohttp", "urllib3", "http.client"}
	}
	if c.Node == nil && c.Chat == nil {
		c.Node = []string{"fetch", "undici", "node:http"}
	}
	if c.Capture == nil {
		c.Capture = []string{event.CaptureFull, event.CaptureShape, event.CaptureNone}
	}
	if c.Fill > 0 {
		c.Chat = json.RawMessage(fill(string(c.Chat), c.Fill))
	}
	c.How, c.Timeout = cmp.Or(c.How, "read"), cmp.Or(c.Timeout, 30)
	c.Times, c.Parallel = max(c.Times, 1), max(c.Parallel, 1)
}
