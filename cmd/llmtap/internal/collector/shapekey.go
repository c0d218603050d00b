package collector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/secret"
)

// A shapeKey is the key of the hashes of users and texts. Without a key, anyone who reads the hash of a user finds its name by
// hashing a list of addresses.
type shapeKey struct {
	text string // "" if there is none
	file string // that contains it; "" if it is in the environment, or if there is none
}

const (
	shapeKeyName    = "the key of users and texts"
	sharedShapeKey  = "shape_key"     // key of event.BucketAlerts, which has what must not expire
	shareKeyTimeout = 3 * time.Second // without an answer of NATS, a process starts without a key
)

// shapeKeyFile returns the file of the key in a data directory. Only the user who runs llmtap can read it.
func shapeKeyFile(dataDir string) string { return filepath.Join(dataDir, "shape.key") }

// ShapeKey returns the key in the environment, or else that of the data directory; "" if there is none.
func ShapeKey(dataDir string) (key string, err error) {
	if key = os.Getenv(event.EnvShapeKey); key != "" {
		return key, nil
	}
	key, err = secret.Read("", shapeKeyName, shapeKeyFile(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return key, err
}

// newShapeKey returns the key of this process: that of the environment or of the data directory. At its first start, a process with its
// own NATS makes one; processes on one external NATS share one, because with several the same user has several hashes.
func (c *Collector) newShapeKey(ctx context.Context) (k shapeKey, err error) {
	if k.text, err = ShapeKey(c.cfg.DataDir); err != nil || os.Getenv(event.EnvShapeKey) != "" {
		return k, err
	}
	file := shapeKeyFile(c.cfg.DataDir)
	switch {
	case k.text != "":
	case c.server != nil:
		k.text, err = secret.Make(shapeKeyName, file)
	default:
		if k.text, err = c.shareShapeKey(ctx); err != nil {
			c.logger.Warn("no key of users and texts", "err", err, "hint", "start again when NATS answers and has the streams of llmtap, or set "+event.EnvShapeKey)
			return shapeKey{}, nil
		}
		err = secret.Store(k.text, shapeKeyName, file)
	}
	k.file = file
	return k, err
}

// shareShapeKey returns the key of the processes on an external NATS, and makes it if there is none.
func (c *Collector) shareShapeKey(ctx context.Context) (key string, err error) {
	ctx, cancel := context.WithTimeout(ctx, shareKeyTimeout)
	defer cancel()
	conn, err := jetstream.Connect(ctx, c.nats, c.logger, nil)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	key, err = SharedShapeKey(ctx, conn)
	if errors.Is(err, jetstream.ErrNoBucket) && c.stores() { // the other roles may not know the limits of streams
		err = conn.Ensure(ctx)
	}
	if key != "" || err != nil {
		return key, err
	}
	kv, err := conn.KV(ctx, event.BucketAlerts)
	if err != nil {
		return "", err
	}
	key, _ = secret.NewToken()
	if _, err = kv.Update(ctx, sharedShapeKey, []byte(key), 0); errors.Is(err, jetstream.ErrKeyConflict) { // another process was faster
		return SharedShapeKey(ctx, conn)
	}
	return key, err
}

// SharedShapeKey returns the key of the processes on an external NATS; "" if there is none.
func SharedShapeKey(ctx context.Context, conn *jetstream.Conn) (string, error) {
	kv, err := conn.KV(ctx, event.BucketAlerts)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", shapeKeyName, err)
	}
	value, _, err := kv.Get(ctx, sharedShapeKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	return string(value), err
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
	return noShapeKey
}

// noShapeKey is what a process without a key lacks.
const noShapeKey = event.EnvShapeKey + " is not set: anyone who reads the hash of a user can find its name by hashing a list of names. Set the same random text for all hooks and for llmtap."

// hashUser returns the labels of a user's name: that of hooks with the key, and that of hooks without one.
func (k shapeKey) hashUser(name string) []string {
	labels := []string{event.HashUser(nil, name)}
	if k.text != "" {
		labels = append(labels, event.HashUser([]byte(k.text), name))
	}
	return labels
}
