package collector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// viewsKey is the key of the views that people have saved for all.
const viewsKey = "views"

// savedViews implements web.Views over the bucket of the alerts' state, which has all that people decide.
type savedViews struct {
	conn func() *jetstream.Conn // returns nil while NATS does not answer
}

var _ web.Views = savedViews{}

func (s savedViews) bucket(ctx context.Context) (*jetstream.KV, error) {
	conn := s.conn()
	if conn == nil {
		return nil, fmt.Errorf("saved views are %w: NATS does not answer", web.ErrUnavailable)
	}
	kv, err := conn.KV(ctx, event.BucketAlerts)
	if err != nil {
		return nil, fmt.Errorf("saved views are %w: %w", web.ErrUnavailable, err)
	}
	return kv, nil
}

// All implements web.Views.
func (s savedViews) All(ctx context.Context) ([]web.SavedView, error) {
	kv, err := s.bucket(ctx)
	if err != nil {
		return nil, err
	}
	value, _, err := kv.Get(ctx, viewsKey)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("saved views are %w: %w", web.ErrUnavailable, err)
	}
	var all []web.SavedView
	if err := json.Unmarshal(value, &all); err != nil {
		return nil, fmt.Errorf("decode saved views: %w", err)
	}
	return all, nil
}

// Edit implements web.Views.
func (s savedViews) Edit(ctx context.Context, edit func(all []web.SavedView) ([]web.SavedView, error)) error {
	kv, err := s.bucket(ctx)
	if err != nil {
		return err
	}
	_, _, err = change(ctx, kv, viewsKey, func(all *[]web.SavedView, _ bool) (bool, error) {
		var err error
		*all, err = edit(*all)
		return err == nil, err
	})
	return err
}
