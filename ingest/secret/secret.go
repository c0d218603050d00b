// Package secret reads the secrets of configurations: tokens, passwords and signing keys.
package secret

import (
	"fmt"
	"os"
	"strings"
)

// Read returns value or, if file is set, the content of the file without surrounding white space. An empty file is an
// error. key is the configuration key of file, used in error messages.
func Read(value, key, file string) (string, error) {
	if file == "" {
		return value, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", fmt.Errorf("%s %s is empty", key, file)
	}
	return s, nil
}
