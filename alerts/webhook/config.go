package webhook

import (
	"errors"
	"fmt"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/secret"
)

// Config says where posts go and what signs them.
type Config struct {
	// URL is posted to.
	URL string `yaml:"url" secret:"all"`
	// Secret is the key of the signature, at least 16 bytes.
	Secret string `yaml:"secret" secret:"all"`
	// SecretFile is a file that holds the secret; it replaces Secret.
	SecretFile string `yaml:"secret_file"`
}

// minSecret is the length from which a key cannot be guessed from one signed post, if it is random.
const minSecret = 16

// Default returns the configuration without a URL and a secret.
func Default() Config { return Config{} }

// Validate reports every mistake in c.
func (c Config) Validate() error {
	var errs []error
	if err := alerts.CheckURL(c.URL); err != nil {
		errs = append(errs, fmt.Errorf("url: %w", err))
	}
	switch {
	case c.Secret != "" && c.SecretFile != "":
		errs = append(errs, errors.New("secret, secret_file: both are set; keep one"))
	case c.Secret == "" && c.SecretFile == "":
		errs = append(errs, errors.New("secret, secret_file: one must be set, to a random key that the receiver knows"))
	case c.Secret != "" && len(c.Secret) < minSecret:
		errs = append(errs, fmt.Errorf("secret: has %d bytes, fewer than %d", len(c.Secret), minSecret))
	}
	return errors.Join(errs...)
}

// readSecret returns the secret itself.
func (c Config) readSecret() ([]byte, error) {
	key, err := secret.Read(c.Secret, "secret_file", c.SecretFile)
	if err == nil && len(key) < minSecret {
		err = fmt.Errorf("secret_file %s has %d bytes, fewer than %d", c.SecretFile, len(key), minSecret)
	}
	return []byte(key), err
}
