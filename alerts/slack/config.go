package slack

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/slack-go/slack"
)

// Config says where messages go.
type Config struct {
	// Token is a bot token (xoxb-…) with the scope chat:write, and channels:history (groups:history in a private
	// channel) so that a message in doubt can be looked up instead of being sent again.
	Token string `yaml:"token" secret:"all"`
	// TokenFile is a file that holds the token; it replaces Token.
	TokenFile string `yaml:"token_file"`
	// Channel is a channel's id (C0123456789) or name (#alerts). With a name, a message in doubt is sent again.
	Channel string `yaml:"channel"`
	// APIURL is the base of Slack's methods.
	APIURL string `yaml:"api_url"`
}

// Default returns the configuration without a token and a channel.
func Default() Config { return Config{APIURL: slack.APIURL} }

// Validate reports every mistake in c.
func (c Config) Validate() error {
	var errs []error
	switch {
	case c.Token != "" && c.TokenFile != "":
		errs = append(errs, errors.New("token, token_file: both are set; keep one"))
	case c.Token == "" && c.TokenFile == "":
		errs = append(errs, errors.New("token, token_file: one must be set, to a bot token (xoxb-…)"))
	}
	if c.Channel == "" {
		errs = append(errs, errors.New("channel: is empty; set it to a channel's id (C0123456789) or name (#alerts)"))
	}
	if err := checkURL(c.APIURL); err != nil {
		errs = append(errs, fmt.Errorf("api_url: %w", err))
	}
	return errors.Join(errs...)
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return err
	}
	if (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return fmt.Errorf("%q is not an http or https URL", s)
	}
	return nil
}
