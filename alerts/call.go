package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	callTimeout   = 10 * time.Second
	maxRetryAfter = 10 * time.Minute
	maxAnswer     = 300 // bytes of a refusal that are told
)

// CheckURL reports what keeps s from being the URL of a receiver. It does not repeat s, which may hold a secret.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return errors.New("is not an http or https URL")
	}
	return nil
}

// NewClient returns the HTTP client of a notifier. It follows no redirect: what is posted would become a GET.
func NewClient() *http.Client {
	return &http.Client{Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Call sends req and makes of the answer what a Notifier returns: nil for 2xx, a *RetryError when it may go better later
// (no answer, 408, 425, 429, 5xx), else a final error. Errors name the host alone: the rest of a URL may be secret.
func Call(client *http.Client, req *http.Request) error {
	resp, err := client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return &RetryError{Err: fmt.Errorf("call %s: %w", req.URL.Host, err)}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	err = fmt.Errorf("call %s: %d %s", req.URL.Host, code, http.StatusText(code))
	if text := strings.Join(strings.Fields(strings.ToValidUTF8(string(answer), "\ufffd")), " "); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	switch {
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		return &RetryError{After: retryAfter(resp.Header.Get("Retry-After")), Err: err}
	case code >= 300 && code < 400:
		return fmt.Errorf("%w; set the URL that it redirects to", err)
	}
	return err
}

// Reach asks whether anything speaks HTTP at the host of a URL, without a call that means something there: the path and the
// query of the URL are left out. A nil client is NewClient's. Errors name the host alone.
func Reach(ctx context.Context, client *http.Client, rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil || CheckURL(rawURL) != nil {
		return CheckURL(rawURL)
	}
	root := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, root.String(), nil)
	if err != nil {
		return fmt.Errorf("prepare call: %w", err)
	}
	if client == nil {
		client = NewClient()
	}
	resp, err := client.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return fmt.Errorf("call %s: %w", u.Host, err)
	}
	_ = resp.Body.Close() // a HEAD has none
	return nil
}

// retryAfter is the wait that a header asks for, within reason; 0 for none.
func retryAfter(header string) time.Duration {
	if s, err := strconv.Atoi(header); err == nil {
		return time.Duration(min(max(s, 0), int(maxRetryAfter.Seconds()))) * time.Second
	}
	if t, err := http.ParseTime(header); err == nil {
		return min(max(time.Until(t), 0), maxRetryAfter)
	}
	return 0
}
