package recorded

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// IsHAR reports whether br contains a HAR, which is an object whose first member is "log". It waits only for as many bytes
// as it needs to decide, because br may be a pipe.
func IsHAR(br *bufio.Reader) bool {
	for n := 16; n <= 256; n *= 2 {
		head, err := br.Peek(n)
		rest := bytes.TrimLeft(head, " \t\r\n")
		for i, token := range []string{"{", `"log"`, ":"} {
			if i > 0 {
				rest = bytes.TrimLeft(rest, " \t\r\n")
			}
			if len(rest) < len(token) && strings.HasPrefix(token, string(rest)) {
				break // unfinished
			}
			if !bytes.HasPrefix(rest, []byte(token)) {
				return false
			}
			if rest = rest[len(token):]; token == ":" {
				return true
			}
		}
		if err != nil {
			break
		}
	}
	return false
}

// entries reads the list log.entries of a HAR, one entry at a time.
type entries struct {
	dec   *json.Decoder
	in    *limitedReader
	limit int
	begun bool // dec has reached the list
	raw   json.RawMessage
}

func newEntries(r io.Reader, limit int) *entries {
	in := &limitedReader{r: r}
	return &entries{dec: json.NewDecoder(in), in: in, limit: limit}
}

// limitedReader reads at most n bytes from r, so that one value cannot exhaust the memory.
type limitedReader struct {
	r io.Reader
	n int
}

func (a *limitedReader) Read(p []byte) (int, error) {
	if a.n <= 0 {
		return 0, errors.New("one value of the HAR is too long")
	}
	n, err := a.r.Read(p[:min(len(p), a.n)])
	a.n -= n
	return n, err
}

// Next returns the next entry.
func (e *entries) Next() ([]byte, error) {
	e.in.n = e.limit
	if !e.begun {
		if err := e.begin(); err != nil {
			return nil, err
		}
		e.begun = true
	}
	if !e.dec.More() {
		_, err := e.dec.Token() // the end of the list, or an error
		if err == nil {
			return nil, io.EOF
		}
		return nil, invalid(err)
	}
	if err := e.dec.Decode(&e.raw); err != nil {
		return nil, invalid(err)
	}
	return e.raw, nil
}

// begin reads everything before the first entry.
func (e *entries) begin() error {
	for range 3 { // { "log" {
		if _, err := e.dec.Token(); err != nil {
			return invalid(err)
		}
	}
	for e.dec.More() {
		key, err := e.dec.Token()
		if err != nil {
			return invalid(err)
		}
		if key == "entries" {
			start, err := e.dec.Token()
			if err != nil {
				return invalid(err)
			}
			if start != json.Delim('[') {
				return errors.New("log.entries is not a list")
			}
			return nil
		}
		e.in.n = e.limit
		if err := e.dec.Decode(&e.raw); err != nil { // pages, creator, …
			return invalid(err)
		}
	}
	if _, err := e.dec.Token(); err != nil {
		return invalid(err)
	}
	return errors.New("the HAR has no log.entries")
}

// invalid returns an error that ends the reading of a file. It converts io.EOF to io.ErrUnexpectedEOF.
func invalid(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("invalid HAR: %w", err)
}

// harEntry contains the used members of a HAR 1.2 entry.
type harEntry struct {
	Started  Text        `json:"startedDateTime"`
	Time     float64     `json:"time"` // milliseconds
	Timings  harTimings  `json:"timings"`
	Request  harRequest  `json:"request"`
	Response harResponse `json:"response"`
}

// harTimings contains the durations of the steps up to the first byte in milliseconds, or -1.
type harTimings struct {
	Blocked, DNS, Connect, Send, Wait float64
}

type harRequest struct {
	Method   string  `json:"method"`
	URL      string  `json:"url"`
	PostData harBody `json:"postData"`
}

type harResponse struct {
	Status  int         `json:"status"`
	Headers []harHeader `json:"headers"`
	Content harBody     `json:"content"`
	Error   string      `json:"_error"` // written by Chrome
}

type harBody struct {
	MimeType string `json:"mimeType"`
	Text     string `json:"text"`
	Encoding string `json:"encoding"` // "" or base64; only some exporters set it in postData
}

type harHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func parseEntry(raw []byte) (*record, Reason, error) {
	var e harEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, NotExchange, fmt.Errorf("not a HAR entry: %w", err)
	}
	if e.Response.Status < 0 || e.Response.Status > 999 {
		return nil, NotExchange, fmt.Errorf("not a HAR entry: status %d", e.Response.Status)
	}
	request, err := decode(e.Request.PostData.Text, e.Request.PostData.Encoding)
	if err != nil {
		return nil, BadBody, fmt.Errorf("request: %w", err)
	}
	if e.Request.Method != http.MethodPost || !isPrompt(e.Request.URL, request) {
		return nil, NotLLM, fmt.Errorf("%.16s %.200s is not an LLM call", e.Request.Method, cleanURL(e.Request.URL))
	}
	response, err := decode(e.Response.Content.Text, e.Response.Content.Encoding)
	if err != nil {
		return nil, BadBody, fmt.Errorf("response: %w", err)
	}
	h := http.Header{}
	for _, kv := range e.Response.Headers {
		h.Add(kv.Name, kv.Value)
	}
	t := &e.Timings
	var firstByte time.Duration
	for _, ms := range []float64{t.Blocked, t.DNS, t.Connect, t.Send, t.Wait} {
		firstByte += millis(ms)
	}
	return &record{
		url: e.Request.URL, method: e.Request.Method, request: request, response: response,
		requestType: e.Request.PostData.MimeType, responseType: e.Response.Content.MimeType, status: e.Response.Status,
		err: e.Response.Error, started: parseTime(e.Started), duration: millis(e.Time), firstByte: firstByte, requestID: requestID(h),
	}, "", nil
}

// isPrompt reports whether body is the request of an LLM call. It checks the URL and the members of body.
func isPrompt(url string, body []byte) bool {
	if t, _ := wire.DetectURL(url); t.Dialect != wire.Other {
		return true
	}
	if b := bytes.TrimLeft(body, " \t\r\n"); len(b) == 0 || b[0] != '{' {
		return false
	}
	var m struct {
		Model     json.RawMessage `json:"model"`
		Messages  json.RawMessage `json:"messages"`
		Contents  json.RawMessage `json:"contents"`  // Gemini
		InputText json.RawMessage `json:"inputText"` // Titan on Bedrock
	}
	if json.Unmarshal(body, &m) != nil {
		return false
	}
	return m.Model != nil || m.Messages != nil || m.Contents != nil || m.InputText != nil
}
