package webhook

import (
	"errors"
	"fmt"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/endpoint"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Config is the configuration of the webhook.
type Config struct {
	URL string `yaml:"url" secret:"all"`
	// Secret is the key for signatures.
	Secret     string `yaml:"secret" secret:"all"`
	SecretFile string `yaml:"secret_file"`
}

var _ alerts.NotifierConfig = Config{}

// minSecret is the minimum length of the key in bytes; a shorter key could be guessed from one signed post.
const minSecret = 16

// Validate implements alerts.NotifierConfig.
func (c Config) Validate() error {
	if c == (Config{}) {
		return nil
	}
	var errs []error
	if err := endpoint.CheckURL(c.URL); err != nil {
		errs = append(errs, fmt.Errorf("url: %w", err))
	}
	switch {
	case c.Secret != "" && c.SecretFile != "":
		errs = append(errs, errors.New("secret, secret_file: both are set; keep one"))
	case c.Secret == "" && c.SecretFile == "":
		errs = append(errs, errors.New("secret, secret_file: set one of them to a random key that the receiver knows"))
	case c.Secret != "" && len(c.Secret) < minSecret:
		errs = append(errs, fmt.Errorf("secret: has %d bytes, fewer than %d", len(c.Secret), minSecret))
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
	key, err := secret.Read(c.Secret, "secret_file", c.SecretFile)
	if err == nil && len(key) < minSecret {
		err = fmt.Errorf("secret_file %s has %d bytes, fewer than %d", c.SecretFile, len(key), minSecret)
	}
	if err != nil {
		return nil, err
	}
	o.SetDefaults()
	n := &Notifier{url: c.URL, secret: []byte(key), opts: o}
	return []alerts.Receiver{{Notifier: n, Destination: endpoint.Host(c.URL), Check: endpoint.CheckReachable("webhook.url", c.URL)}}, nil
}
