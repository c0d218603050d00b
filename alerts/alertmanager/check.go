package alertmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/secret"
)

// maxStatus bounds an Alertmanager's answer about itself, which holds its configuration.
const maxStatus = 4 << 20

// A Status is what one Alertmanager says of itself.
type Status struct {
	Host    string
	Version string
	Err     error // why it did not say; it does not repeat the URL
}

// Check asks every Alertmanager of cfg which version it is, and posts nothing.
func Check(ctx context.Context, cfg Config) ([]Status, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	token, err := secret.Read(cfg.Token, "token_file", cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	var all []Status
	for _, base := range cfg.URLs {
		s := Status{Host: hostOf(base)}
		s.Version, s.Err = version(ctx, strings.TrimRight(base, "/")+"/api/v2/status", token)
		all = append(all, s)
	}
	return all, nil
}

func version(ctx context.Context, statusURL, token string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, statusURL, nil)
	if err != nil {
		return "", fmt.Errorf("prepare call: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := alerts.NewClient().Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return "", fmt.Errorf("call %s: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("call %s: %s", req.URL.Host, resp.Status)
	}
	var answer struct {
		VersionInfo struct {
			Version string `json:"version"`
		} `json:"versionInfo"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&answer); err != nil || answer.VersionInfo.Version == "" {
		return "", fmt.Errorf("call %s: the answer is not that of an Alertmanager", req.URL.Host)
	}
	return answer.VersionInfo.Version, nil
}

// Host is the host of the Alertmanager that n tells.
func (n *Notifier) Host() string { return hostOf(n.url) }

func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Host
}
