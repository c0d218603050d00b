// Package secret reads the secrets of configurations: tokens, passwords and signing keys.
package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// Make returns the secret in file, and creates it if there is none. Only the user of the process can read it. name is that of the
// secret, used in error messages.
func Make(name, file string) (string, error) {
	s, err := Read("", name, file)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s, _ = NewToken()
	return s, Store(s, name, file)
}

// Store writes value to file, which only the user of the process can read, in a directory that it creates if there is none. name is as
// for Make.
func Store(value, name, file string) error {
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(value+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}
