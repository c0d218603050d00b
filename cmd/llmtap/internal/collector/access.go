package collector

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/secret"
)

// accessStore implements access.Store over the bucket of the alerts' state, which has all that people decide.
type accessStore struct {
	conn func() *jetstream.Conn // returns nil while NATS does not answer
}

var _ access.Store = accessStore{}

func (s accessStore) bucket(ctx context.Context) (*jetstream.KV, error) {
	conn := s.conn()
	if conn == nil {
		return nil, errors.New("NATS does not answer")
	}
	return conn.KV(ctx, event.BucketAlerts)
}

// within opens the bucket for f, which has actionTimeout.
func (s accessStore) within(ctx context.Context, f func(context.Context, *jetstream.KV) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actionTimeout)
	defer cancel()
	kv, err := s.bucket(ctx)
	if err != nil {
		return err
	}
	return f(ctx, kv)
}

// Replace implements access.Store.
func (s accessStore) Replace(ctx context.Context, key string, old, value []byte) error {
	return s.within(ctx, func(ctx context.Context, kv *jetstream.KV) error {
		current, revision, err := kv.Get(ctx, key)
		switch {
		case err != nil && !errors.Is(err, jetstream.ErrKeyNotFound):
			return err
		case !bytes.Equal(current, old): // the value of a deleted key is empty
			return access.ErrConflict
		}
		if _, err = kv.Update(ctx, key, value, revision); errors.Is(err, jetstream.ErrKeyConflict) {
			return access.ErrConflict
		}
		return err
	})
}

// Get implements access.Store.
func (s accessStore) Get(ctx context.Context, key string) (value []byte, err error) {
	err = s.within(ctx, func(ctx context.Context, kv *jetstream.KV) error {
		value, _, err = kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			value, err = nil, nil
		}
		return err
	})
	return value, err
}

// Delete implements access.Store. It leaves an empty value, because watchers are not notified of a purge. followAccess purges it.
func (s accessStore) Delete(ctx context.Context, key string) error {
	return s.within(ctx, func(ctx context.Context, kv *jetstream.KV) error { return kv.Put(ctx, key, nil) })
}

// followAccess keeps the tokens of machines and the sessions of people current until ctx ends.
func (c *Collector) followAccess(ctx context.Context) error {
	select {
	case <-c.connected:
	case <-ctx.Done():
		return nil
	}
	var kv *jetstream.KV
	for ctx.Err() == nil {
		var err error
		if kv, err = (accessStore{c.conn.Load}).bucket(ctx); err == nil {
			break
		}
		sleep(ctx, time.Second) // the bucket is being created
	}
	followers := []interface {
		Keys() string
		Replace(values map[string][]byte)
		Change(key string, value []byte)
	}{c.machines}
	if c.ui != nil && c.ui.people != nil {
		followers = append(followers, c.ui.people)
	}
	var patterns []string
	for _, f := range followers {
		patterns = append(patterns, f.Keys())
	}
	of := func(pattern, key string) bool { return strings.HasPrefix(key, strings.TrimSuffix(pattern, "*")) }
	empty := map[string]bool{} // keys that were deleted before the last replace
	kv.Watch(ctx, patterns, func(values map[string][]byte) {
		deleted := map[string]bool{}
		for key, value := range values {
			if len(value) > 0 {
				continue
			}
			if deleted[key] = true; empty[key] { // all processes know it
				if err := purgeKey(ctx, kv, key); err != nil {
					c.logger.Warn("a deleted key is still stored", "key", key, "err", err)
				}
			}
		}
		empty = deleted
		for _, f := range followers {
			own := maps.Clone(values)
			maps.DeleteFunc(own, func(key string, _ []byte) bool { return !of(f.Keys(), key) })
			f.Replace(own)
		}
	}, func(key string, value []byte) {
		for _, f := range followers {
			if of(f.Keys(), key) {
				f.Change(key, value)
			}
		}
	})
	return nil
}

// newPeople returns the sessions of people who log in at a provider, or nil if there is none, and the key that signs sessions and
// forms: key, or else one of the secret of the client, which is also the same in all processes.
func (u *uiRole) newPeople(key []byte) (*access.Sessions, []byte, error) {
	cfg := u.c.cfg.UI.OIDC
	if !cfg.Enabled() {
		return nil, key, nil
	}
	var err error
	if cfg.ClientSecret, err = secret.Read(cfg.ClientSecret, "ui.oidc.client_secret_file", cfg.ClientSecretFile); err != nil {
		return nil, nil, err
	}
	if key == nil && cfg.ClientSecret != "" {
		h := hmac.New(sha256.New, []byte(cfg.ClientSecret))
		fmt.Fprint(h, "llmtap web session")
		key = h.Sum(nil)
	}
	base := strings.TrimRight(cmp.Or(u.c.cfg.UI.ExternalURL, u.c.localURL(u.listener)), "/")
	return access.NewSessions(access.Options{
		Config: cfg, Policy: u.c.policy(), Redirect: base + web.CallbackPath, Store: accessStore{u.c.conn.Load}, Key: key, Logger: u.c.logger,
	}), key, nil
}
