// Package endpoint calls the HTTP endpoints of receivers. Its errors follow the contract of alerts.Notifier and contain no secret URL.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
)

const (
	maxRetryAfter = 10 * time.Minute
	mendInterval  = time.Minute // interval of attempts after an error that somebody must mend at the receiver
	maxErrorText  = 300         // maximum length of a response quoted in an error, in bytes
	maxAnswer     = 4 << 20     // maximum length of a decoded response, in bytes; an Alertmanager's status contains its configuration
)

// CheckURL validates the URL of a receiver. The error does not repeat s, which may contain a secret.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return errors.New("is not an http or https URL")
	}
	return nil
}

// Host returns the host of a URL, or "" if the URL is invalid. Unlike the rest of the URL, the host is not secret.
func Host(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Host
}

// Retryable reports whether a receiver that answers with this status may accept the same request later.
func Retryable(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status == http.StatusTooEarly
}

// aboutURL reports whether a receiver that answers with this status rejects the URL or its credentials, not the request.
func aboutURL(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone, http.StatusProxyAuthRequired:
		return true
	}
	return false
}

// Call sends req and decodes the response's JSON into answer unless answer is nil. Its errors follow the contract of
// Notifier: a *RetryError if there is no response, or its status is Retryable or about the URL, otherwise a final error. Errors name only
// the host, because the rest of the URL may be secret; that, and the other secrets, are also removed from the answer that an error quotes.
func Call(client *http.Client, req *http.Request, answer any, secrets ...string) error {
	resp, err := do(client, req)
	if err != nil {
		return &alerts.RetryError{Down: true, Doubt: !unconnected(err), Err: err}
	}
	defer resp.Body.Close()
	status := resp.StatusCode
	if status >= 200 && status < 300 {
		if answer == nil {
			return nil
		}
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(answer); err != nil {
			return fmt.Errorf("call %s: unexpected answer: %w", req.URL.Host, err)
		}
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	err = fmt.Errorf("call %s: %d %s", req.URL.Host, status, http.StatusText(status))
	if text := strings.Join(strings.Fields(strings.ToValidUTF8(Redact(string(body), append(secrets, inURL(req.URL)...)...), "\ufffd")), " "); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch {
	case Retryable(status):
		return &alerts.RetryError{After: retryAfter(resp.Header.Get("Retry-After")), Down: true, Err: err}
	case aboutURL(status):
		return &alerts.RetryError{After: mendInterval, Down: true, Err: err}
	case status >= 300 && status < 400:
		return fmt.Errorf("%w; set the URL of the redirect", err)
	}
	return err
}

// Post is Call with body as JSON, and without an answer.
func Post(ctx context.Context, client *http.Client, url string, body any, secrets ...string) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode notification: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return errors.New("prepare call: the URL is invalid") // err contains it
	}
	req.Header.Set("Content-Type", "application/json")
	return Call(client, req, nil, secrets...)
}

// Redact returns text without the secrets. Those shorter than 4 bytes stay: they would be found in words.
func Redact(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "(removed)")
		}
	}
	return text
}

// inURL returns the parts of u that may be secret, the longest first.
func inURL(u *url.URL) []string {
	out := []string{u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery}
	for _, values := range u.Query() {
		out = append(out, values...)
	}
	if password, ok := u.User.Password(); ok {
		out = append(out, password)
	}
	return out
}

// unconnected reports whether err prevented a request from being sent.
func unconnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func do(client *http.Client, req *http.Request) (*http.Response, error) {
	resp, err := client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, fmt.Errorf("call %s: %w", req.URL.Host, err)
	}
	return resp, nil
}

// reach returns an error unless the host of a URL answers HTTP requests. It requests only the path "/", without a
// query, so the request has no effect on the receiver.
func reach(ctx context.Context, rawURL string) error {
	if err := CheckURL(rawURL); err != nil {
		return err
	}
	u, _ := url.Parse(rawURL)
	root := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, root.String(), nil)
	if err != nil {
		return fmt.Errorf("prepare call: %w", err)
	}
	resp, err := do(alerts.NewClient(), req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // HEAD has no body
	return nil
}

// CheckReachable returns a Check for a receiver that has no request other than a notification.
func CheckReachable(key, rawURL string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if err := reach(ctx, rawURL); err != nil {
			return "", fmt.Errorf("%w; correct %s, or start the receiver, or look for a firewall in between", err, key)
		}
		return "the host answers; llmtap alerts test-notify sends a test alert", nil
	}
}

// retryAfter returns the delay of a Retry-After header, at most maxRetryAfter, or 0 if there is none.
func retryAfter(header string) time.Duration {
	if s, err := strconv.Atoi(header); err == nil {
		return time.Duration(min(max(s, 0), int(maxRetryAfter.Seconds()))) * time.Second
	}
	if t, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(t), 0), maxRetryAfter)
	}
	return 0
}
