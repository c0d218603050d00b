package msteams

import (
	"errors"
	"fmt"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/alerts/thread"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Config is the configuration of Microsoft Teams. The names of its keys are those of Alertmanager's msteamsv2_configs.
type Config struct {
	// WebhookURL is the URL of a workflow. Whoever knows it can post.
	WebhookURL     string `yaml:"webhook_url" secret:"all"`
	WebhookURLFile string `yaml:"webhook_url_file"`
}

var _ alerts.NotifierConfig = Config{}

// Validate implements alerts.NotifierConfig.
func (c Config) Validate() error {
	if c.WebhookURL != "" && c.WebhookURLFile != "" {
		return errors.New("webhook_url, webhook_url_file: both are set; keep one")
	}
	if c.WebhookURL != "" {
		if err := endpoint.CheckURL(c.WebhookURL); err != nil {
			return fmt.Errorf("webhook_url: %w", err)
		}
	}
	return nil
}

// Receivers implements alerts.NotifierConfig.
func (c Config) Receivers(o alerts.NotifierOptions) ([]alerts.Receiver, error) {
	if c == (Config{}) {
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	url, err := secret.Read(c.WebhookURL, "webhook_url_file", c.WebhookURLFile)
	if err != nil {
		return nil, err
	}
	if err := endpoint.CheckURL(url); err != nil {
		return nil, fmt.Errorf("webhook_url_file: %w", err)
	}
	o.SetDefaults()
	n := &Notifier{url: url, client: o.Client, threads: thread.New("msteams", url, o)}
	return []alerts.Receiver{{Notifier: n, Destination: endpoint.Host(url), Check: endpoint.CheckReachable("msteams.webhook_url", url)}}, nil
}
