package collector

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/secret"
)

// A shapeKey is the key of the hashes of users and texts. Without a key, anyone who reads the hash of a user finds its name by
// hashing a list of addresses.
type shapeKey struct {
	text string // "" if there is none
	file string // that contains it; "" if it is in the environment, or if there is none
}

const shapeKeyName = "the key of users and texts"

// ShapeKeyFile returns the file of the key in a data directory. Only the user who runs llmtap can read it.
func ShapeKeyFile(dataDir string) string { return filepath.Join(dataDir, "shape.key") }

// ShapeKey returns the key in the environment, or else that of the data directory; "" if there is none.
func ShapeKey(dataDir string) (key string, err error) {
	if key = os.Getenv(event.EnvShapeKey); key != "" {
		return key, nil
	}
	key, err = secret.Read("", shapeKeyName, ShapeKeyFile(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return key, err
}

// newShapeKey returns the key of this process. A process with its own NATS makes one at its first start. Several processes on one
// external NATS would make several, with which the same user has several hashes.
func (c *Collector) newShapeKey() (k shapeKey, err error) {
	k.text, err = ShapeKey(c.cfg.DataDir)
	if err == nil && k.text == "" && c.server != nil {
		k.text, err = secret.Make(shapeKeyName, ShapeKeyFile(c.cfg.DataDir))
	}
	if k.text != "" && os.Getenv(event.EnvShapeKey) == "" {
		k.file = ShapeKeyFile(c.cfg.DataDir)
	}
	return k, err
}

// export returns the line that gives hooks the key; "" if this process does not know where it comes from.
func (k shapeKey) export() string {
	if k.file == "" {
		return ""
	}
	file, err := filepath.Abs(k.file)
	if err != nil {
		file = k.file
	}
	return "export " + event.EnvShapeKey + `="$(cat '` + strings.ReplaceAll(file, "'", `'\''`) + `')"`
}

// missing says what a process without a key lacks; "" with one.
func (k shapeKey) missing() string {
	if k.text != "" {
		return ""
	}
	return NoShapeKey
}

// NoShapeKey is what a process without a key lacks.
const NoShapeKey = event.EnvShapeKey + " is not set: anyone who reads the hash of a user can find its name by hashing a list of names. Set the same random text for all hooks and for llmtap."

// hashUser returns the labels of a user's name: that of hooks with the key, and that of hooks without one.
func (k shapeKey) hashUser(name string) []string {
	labels := []string{event.HashUser(nil, name)}
	if k.text != "" {
		labels = append(labels, event.HashUser([]byte(k.text), name))
	}
	return labels
}
