package spans

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/ingest/secret"
)

// Config is the configuration of the export.
type Config struct {
	URL         string `yaml:"url"`                  // of OTLP over HTTP, with /v1/traces; "": no export
	Headers     string `yaml:"headers" secret:"all"` // as OTEL_EXPORTER_OTLP_HEADERS: name=value, separated by commas, in URL encoding
	HeadersFile string `yaml:"headers_file"`
}

// Validate returns all errors, joined.
func (c *Config) Validate() error {
	var errs []error
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		errs = append(errs, errors.New("url: is not an address such as https://collector:4318/v1/traces"))
	}
	if c.Headers != "" && c.HeadersFile != "" {
		errs = append(errs, errors.New("headers, headers_file: both are set; keep one"))
	}
	if c.URL == "" && c.Headers+c.HeadersFile != "" {
		errs = append(errs, errors.New("url: is empty, so headers are never sent"))
	}
	if _, err := parseHeaders(c.Headers); err != nil {
		errs = append(errs, fmt.Errorf("headers: %w", err))
	}
	return errors.Join(errs...)
}

// header returns the headers of requests.
func (c *Config) header() (http.Header, error) {
	s, err := secret.Read(c.Headers, "traces.headers_file", c.HeadersFile)
	if err != nil {
		return nil, err
	}
	return parseHeaders(s)
}

// parseHeaders never quotes s, which is a secret.
func parseHeaders(s string) (http.Header, error) {
	h := http.Header{}
	for i, pair := range strings.Split(s, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n\x00") {
			return nil, fmt.Errorf("header %d is not as name=value", i+1)
		}
		h.Set(name, value)
	}
	return h, nil
}
