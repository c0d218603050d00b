package slack

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Config is the configuration of the Slack notifier.
type Config struct {
	// Token is a bot token (xoxb-…) with the scope chat:write. With the scope channels:history (groups:history for a
	// private channel), a message in doubt is searched for instead of being posted again.
	Token     string `yaml:"token" secret:"all"`
	TokenFile string `yaml:"token_file"`
	// Channel is the id (C0123456789) or name (#alerts) of a channel. If it is a name, a message in doubt is posted
	// again.
	Channel string `yaml:"channel"`
	// APIURL is the base URL of Slack's API methods.
	APIURL string `yaml:"api_url"`
}

var _ alerts.NotifierConfig = Config{}

// Default returns a configuration without a token or a channel.
func Default() Config { return Config{APIURL: slack.APIURL} }

// Validate implements alerts.NotifierConfig.
func (c Config) Validate() error {
	if c.Token == "" && c.TokenFile == "" && c.Channel == "" {
		return nil
	}
	var errs []error
	switch {
	case c.Token != "" && c.TokenFile != "":
		errs = append(errs, errors.New("token, token_file: both are set; keep one"))
	case c.Token == "" && c.TokenFile == "":
		errs = append(errs, errors.New("token, token_file: set one of them to a bot token (xoxb-…)"))
	}
	if c.Channel == "" {
		errs = append(errs, errors.New("channel: is empty; set it to the id (C0123456789) or name (#alerts) of a channel"))
	}
	if err := alerts.CheckURL(c.APIURL); err != nil {
		errs = append(errs, fmt.Errorf("api_url: %w", err))
	}
	return errors.Join(errs...)
}

// Receivers implements alerts.NotifierConfig.
func (c Config) Receivers(o alerts.NotifierOptions) ([]alerts.Receiver, error) {
	if err := c.Validate(); err != nil || c.Channel == "" {
		return nil, err
	}
	token, err := secret.Read(c.Token, "token_file", c.TokenFile)
	if err != nil {
		return nil, err
	}
	o.SetDefaults()
	n := &Notifier{
		channel: c.Channel, access: o.Access, log: o.Logger, limited: map[string]time.Time{},
		api:     slack.New(token, slack.OptionAPIURL(strings.TrimRight(c.APIURL, "/")+"/"), slack.OptionHTTPClient(o.Client)),
		records: alerts.NewRecords[*record](o.Store, "slack", "", o.Logger),
	}
	return []alerts.Receiver{{Notifier: n, Destination: c.Channel, Check: n.check}}, nil
}
