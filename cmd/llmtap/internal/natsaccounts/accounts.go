// Package natsaccounts writes the users of a nats-server for llmtap: one for llmtap, and one for the hooks of each service.
package natsaccounts

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/secret"
)

// ConfigFile is the file for the server, with hashes of the passwords.
const ConfigFile = "llmtap-accounts.conf"

// collector is the user of llmtap. No service can have the name: it is that of the other file.
const collector = "llmtap-collector"

// A File is a file that Write wrote or kept.
type File struct {
	Name string `json:"file"`
	For  string `json:"for"`
	New  bool   `json:"new"` // false: its password was kept
}

// Write writes ConfigFile into dir, and a file NAME.env with the URL of NATS, which contains the password, for llmtap and for each
// service. A file that exists keeps its password. server is the URL of NATS without a user.
func Write(dir, server string, services []string) ([]File, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%q is not a URL without a user, such as nats://nats.internal:4222", server)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c, err := credentials(dir, *u, collector, "LLMTAP_COLLECTOR_NATS_URL")
	if err != nil {
		return nil, err
	}
	c.For = "llmtap up"
	files, llmtap := []File{c.File}, fmt.Sprintf("{user: %s, password: %q}", collector, c.hash)
	var users []string
	services = slices.Compact(slices.Sorted(slices.Values(services)))
	for _, service := range services {
		token := event.ServiceToken(service)
		if token == collector {
			return nil, fmt.Errorf("a service cannot have the name %s", service)
		}
		c, err := credentials(dir, *u, token, event.EnvNATSURL)
		if err != nil {
			return nil, err
		}
		c.For = "agents of " + service
		files = append(files, c.File)
		users = append(users, fmt.Sprintf("{user: %s, password: %q, permissions: {publish: %q, subscribe: \"_INBOX.>\"}}",
			token, c.hash, event.SubjectPrefix+"*."+token+".*"))
	}
	text := fmt.Sprintf(`# Accounts of llmtap, written by llmtap nats accounts. In nats-server.conf:
#   jetstream {}
#   include %q
# Agents may publish the events of their service, and nothing else. They have an account of their own: JetStream acknowledges an event
# to any subject that its sender chooses, and in the account of llmtap, that could be a key of a bucket.
accounts {
  LLMTAP {
    jetstream: enabled
    users: [%s]
    exports: [{service: %q}]
  }
  LLMTAP_AGENTS {
    imports: [{service: {account: LLMTAP, subject: %[3]q}}]
    users: [
      %s
    ]
  }
}
`, ConfigFile, llmtap, event.SubjectAll, strings.Join(users, "\n      "))
	name := filepath.Join(dir, ConfigFile)
	return append(files, File{name, "nats-server", true}), write(name, text)
}

// write writes a file that only its owner can read.
func write(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }

// A login is the file with the password of a user, and its hash.
type login struct {
	File
	hash string
}

// credentials returns the login in the file of user, with a new password if there is no file.
func credentials(dir string, server url.URL, user, variable string) (login, error) {
	c := login{File: File{Name: filepath.Join(dir, user+".env")}}
	text, err := os.ReadFile(c.Name)
	password := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		password, _ = secret.NewToken()
		c.New = true
		server.User = url.UserPassword(user, password)
		err = write(c.Name, variable+"="+server.String()+"\n")
	case err == nil:
		_, value, _ := strings.Cut(strings.TrimSpace(string(text)), "=")
		u, bad := url.Parse(value)
		if bad == nil {
			password, _ = u.User.Password()
		}
		if password == "" {
			return c, fmt.Errorf("%s has no password: delete it, and run this again for a new one", c.Name)
		}
	}
	if err != nil {
		return c, err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	c.hash = string(hash)
	return c, err
}
