package pagerduty

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/ingest/secret"
)

// defaultURL is the service region US. Accounts of the region EU have events.eu.pagerduty.com.
const defaultURL = "https://events.pagerduty.com/v2/enqueue"

// Config is the configuration of PagerDuty. The names of its keys are those of Alertmanager's pagerduty_configs.
type Config struct {
	// RoutingKey is the integration key of a service with the integration Events API v2.
	RoutingKey     string `yaml:"routing_key" secret:"all"`
	RoutingKeyFile string `yaml:"routing_key_file"`
	URL            string `yaml:"url"` // "": defaultURL
}

var _ alerts.NotifierConfig = Config{}

// Validate implements alerts.NotifierConfig.
func (c Config) Validate() error {
	var errs []error
	if c.URL != "" {
		if err := endpoint.CheckURL(c.URL); err != nil {
			errs = append(errs, fmt.Errorf("url: %w", err))
		}
		if c.RoutingKey+c.RoutingKeyFile == "" {
			errs = append(errs, errors.New("routing_key, routing_key_file: set one of them to the integration key of a service"))
		}
	}
	if c.RoutingKey != "" && c.RoutingKeyFile != "" {
		errs = append(errs, errors.New("routing_key, routing_key_file: both are set; keep one"))
	}
	return errors.Join(errs...)
}

// Receivers implements alerts.NotifierConfig.
func (c Config) Receivers(o alerts.NotifierOptions) ([]alerts.Receiver, error) {
	if c == (Config{}) {
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	key, err := secret.Read(c.RoutingKey, "routing_key_file", c.RoutingKeyFile)
	if err != nil {
		return nil, err
	}
	o.SetDefaults()
	n := &Notifier{url: cmp.Or(c.URL, defaultURL), key: key, opts: o}
	return []alerts.Receiver{{Notifier: n, Destination: endpoint.Host(n.url), Check: endpoint.CheckReachable("pagerduty.url", n.url)}}, nil
}
