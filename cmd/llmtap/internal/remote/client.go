package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/ingest/certs"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	queryTimeout = 3 * time.Minute
	probeTimeout = 2 * time.Second
	callTimeout  = 30 * time.Second
	maxError     = 16 << 10 // bytes of an error response
)

// A Client queries a collector. Its errors name the URL.
type Client struct {
	url   *url.URL
	token string
	http  *http.Client
	pages atomic.Pointer[string] // PagesHeader of the last response to a query
}

// NewClient returns a client for the collector at this base URL, such as http://collector:8088. The token is its http.token;
// it may be empty. files and pinned are those of certs.Client, for a collector with TLS.
func NewClient(base, token string, files certs.Client, pinned string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is not the URL of a collector, such as http://collector:8088", base)
	}
	c := &Client{url: u, token: token, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if u.Scheme == "https" {
		cfg, err := files.Config(pinned)
		if err != nil {
			return nil, err
		}
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // as documented
		transport.TLSClientConfig = cfg
		c.http.Transport = transport
	}
	return c, nil
}

// Query runs one read-only statement, like clickhouse.Sink.QueryBounded.
func (c *Client) Query(ctx context.Context, sql string, params map[string]string) (*clickhouse.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	body, err := json.Marshal(statement{sql, params, rows.StoredOf(ctx)})
	if err != nil {
		return nil, err
	}
	res, err := c.do(ctx, http.MethodPost, Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // read errors are returned below
	if err := c.check(res); err != nil {
		return nil, err
	}
	found, err := clickhouse.ReadNative(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read the response of %s: %w", c.url, err)
	}
	found.Truncated = res.Header.Get(headerTruncated) != ""
	if pages := res.Header.Get(PagesHeader); strings.HasPrefix(pages, "http://") || strings.HasPrefix(pages, "https://") {
		c.pages.Store(&pages)
	}
	return found, nil
}

// PagesHeader is the header of responses to queries with the base URL of the web pages, if the collector has any that the client
// can reach.
const PagesHeader = "Llmtap-Pages"

// Pages returns the base URL of the collector's web pages, or "" if no response to a query has named it.
func (c *Client) Pages() string {
	if p := c.pages.Load(); p != nil {
		return *p
	}
	return ""
}

// maxAnswer bounds the answer of Call, in bytes.
const maxAnswer = 64 << 20

// Call sends a request with body as JSON, unless it is nil, and decodes the JSON of the response into answer, unless it is
// nil. header contains pairs of name and value.
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body, answer any, header ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	u := c.url.JoinPath(path)
	u.RawQuery = query.Encode()
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(b)
		header = append(header, "Content-Type", "application/json")
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), sent)
	if err != nil {
		return err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.send(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // read errors are returned below
	isJSON := strings.HasPrefix(res.Header.Get("Content-Type"), "application/json")
	if res.StatusCode == http.StatusOK && isJSON {
		if answer == nil {
			return nil
		}
		if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(answer); err != nil {
			return fmt.Errorf("read the response of %s: %w", c.url, err)
		}
		return nil
	}
	var text string
	if isJSON && json.NewDecoder(io.LimitReader(res.Body, maxError)).Decode(&text) == nil && text != "" {
		if res.StatusCode == http.StatusServiceUnavailable {
			return fmt.Errorf("%s: %s", c.url, text)
		}
		return errors.New(text) // about the request
	}
	return c.check(res)
}

// Probe reports whether a collector answers.
func (c *Client) Probe(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	res, err := c.do(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return false
	}
	_ = res.Body.Close() // only the header is read
	return res.Header.Get("Server") == ServerName
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url.JoinPath(path).String(), body)
	if err != nil {
		return nil, err
	}
	return c.send(req)
}

func (c *Client) send(req *http.Request) (*http.Response, error) {
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if ue, ok := errors.AsType[*url.Error](err); ok {
		fix := "check --url (LLMTAP_URL)"
		if text := ue.Err.Error(); strings.Contains(text, "x509: ") {
			fix = "set http.ca_file (LLMTAP_HTTP_CA_FILE) to the CA of its certificate"
		} else if strings.Contains(text, "certificate required") {
			fix = "set http.cert_file and http.key_file (LLMTAP_HTTP_CERT_FILE, LLMTAP_HTTP_KEY_FILE) to a certificate that it accepts"
		} else if strings.Contains(text, "HTTP response to HTTPS client") {
			fix = "it does not use TLS: use http:// in --url (LLMTAP_URL)"
		}
		return nil, fmt.Errorf("reach llmtap at %s: %w; %s", c.url, ue.Err, fix)
	}
	return res, err
}

// check returns an error unless res contains rows.
func (c *Client) check(res *http.Response) error {
	text := ""
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") {
		b, _ := io.ReadAll(io.LimitReader(res.Body, maxError)) // an incomplete text is better than none
		text = strings.TrimSpace(string(b))
	}
	switch code := res.StatusCode; {
	case code == http.StatusOK && res.Header.Get("Content-Type") == contentType:
		return nil
	case code == http.StatusUnauthorized && c.token == "":
		return fmt.Errorf("%s requires a token: set LLMTAP_HTTP_TOKEN to the http.token of the collector", c.url)
	case code == http.StatusUnauthorized:
		return fmt.Errorf("%s rejects the token: set LLMTAP_HTTP_TOKEN to the http.token of the collector", c.url)
	case code == http.StatusBadRequest && text != "":
		return errors.New(text) // about the statement
	case code >= 300 && code < 400:
		return fmt.Errorf("%s redirects to %s; set --url (LLMTAP_URL) to the listen address of the collector", c.url, cmp.Or(res.Header.Get("Location"), "another page"))
	case text == "" || code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%s answers HTTP %d: it is not a collector, or an older one; check --url (LLMTAP_URL)", c.url, code)
	}
	err := fmt.Errorf("%s answers HTTP %d: %s", c.url, res.StatusCode, text)
	if res.StatusCode == http.StatusForbidden {
		return &rows.RefusedError{Text: err.Error()}
	}
	return err
}
