package alertmanager

import (
	"errors"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/alerts"
)

// Config says where alerts are sent.
type Config struct {
	// URLs are the bases of all members of a cluster, or of the one Alertmanager; a user and password in them are sent.
	URLs []string `yaml:"urls" secret:"url"`
	// Token is sent as Authorization: Bearer, if it is not empty.
	Token string `yaml:"token" secret:"all"`
	// TokenFile is a file that holds the token; it replaces Token.
	TokenFile string `yaml:"token_file"`
}

// Default returns the configuration without a URL.
func Default() Config { return Config{} }

// Validate reports every mistake in c.
func (c Config) Validate() error {
	var errs []error
	if len(c.URLs) == 0 {
		errs = append(errs, errors.New("urls: is empty; set it to the URL of an Alertmanager, such as [http://alertmanager:9093]"))
	}
	for i, u := range c.URLs {
		if err := alerts.CheckURL(u); err != nil {
			errs = append(errs, fmt.Errorf("urls[%d]: %w", i, err))
		} else if strings.ContainsAny(u, "?#") {
			errs = append(errs, fmt.Errorf("urls[%d]: has a query or a fragment; name the base alone, without /api/v2", i))
		}
	}
	if c.Token != "" && c.TokenFile != "" {
		errs = append(errs, errors.New("token, token_file: both are set; keep one"))
	}
	return errors.Join(errs...)
}
