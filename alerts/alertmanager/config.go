package alertmanager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/alerts/sent"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Config is the configuration of the Alertmanagers to notify.
type Config struct {
	// URLs are the base URLs of all members of a cluster, or of the only Alertmanager. A user and password in a URL are
	// sent as basic authentication.
	URLs []string `yaml:"urls" secret:"url"`
	// Token is sent in the header Authorization: Bearer.
	Token     string `yaml:"token" secret:"all"`
	TokenFile string `yaml:"token_file"`
}

var _ alerts.NotifierConfig = Config{}

// Validate implements alerts.NotifierConfig.
func (c Config) Validate() error {
	if len(c.URLs) == 0 && c.Token == "" && c.TokenFile == "" {
		return nil
	}
	var errs []error
	if len(c.URLs) == 0 {
		errs = append(errs, errors.New("urls: is empty; set it to the URL of an Alertmanager, such as [http://alertmanager:9093]"))
	}
	for i, u := range c.URLs {
		if err := endpoint.CheckURL(u); err != nil {
			errs = append(errs, fmt.Errorf("urls[%d]: %w", i, err))
		} else if strings.ContainsAny(u, "?#") {
			errs = append(errs, fmt.Errorf("urls[%d]: has a query or a fragment; set the base URL, without /api/v2", i))
		}
	}
	if c.Token != "" && c.TokenFile != "" {
		errs = append(errs, errors.New("token, token_file: both are set; keep one"))
	}
	return errors.Join(errs...)
}

// Receivers implements alerts.NotifierConfig.
func (c Config) Receivers(o alerts.NotifierOptions) ([]alerts.Receiver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	token, err := secret.Read(c.Token, "token_file", c.TokenFile)
	if err != nil {
		return nil, err
	}
	o.SetDefaults()
	var all []alerts.Receiver
	for _, u := range c.URLs {
		base := strings.TrimRight(u, "/") + "/api/v2/"
		n := &Notifier{
			url: base + "alerts", token: token, access: o.Access, client: o.Client,
			records: sent.New[known](o.Store, "alertmanager", base+"alerts\n", o.Logger),
		}
		check := func(ctx context.Context) (string, error) {
			version, err := n.version(ctx, base+"status")
			if err != nil {
				return "", fmt.Errorf("%w; start Alertmanager, or correct alertmanager.urls and its token, or look for a firewall in between", err)
			}
			return "version " + version, nil
		}
		all = append(all, alerts.Receiver{Notifier: n, Destination: endpoint.Host(u), System: true, Check: check})
	}
	return all, nil
}

// request returns a request with the token.
func (n *Notifier) request(ctx context.Context, method, url, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("prepare request to alertmanager: %w", err)
	}
	if n.token != "" {
		req.Header.Set("Authorization", "Bearer "+n.token)
	}
	return req, nil
}

// version returns the version that the Alertmanager reports.
func (n *Notifier) version(ctx context.Context, statusURL string) (string, error) {
	req, err := n.request(ctx, http.MethodGet, statusURL, "")
	if err != nil {
		return "", err
	}
	var answer struct {
		VersionInfo struct {
			Version string `json:"version"`
		} `json:"versionInfo"`
	}
	if err := endpoint.Call(n.client, req, &answer); err != nil {
		return "", err
	}
	if answer.VersionInfo.Version == "" {
		return "", fmt.Errorf("call %s: the answer is not that of an Alertmanager", req.URL.Host)
	}
	return answer.VersionInfo.Version, nil
}
