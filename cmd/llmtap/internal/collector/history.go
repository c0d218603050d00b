package collector

import (
	"context"
	"time"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/past"
)

// pastTimeout bounds the time in which ClickHouse must read a part of the history.
const pastTimeout = 5 * time.Minute

// history implements engine.History.
func (c *Collector) history(ctx context.Context, services []string, from, until time.Time) ([]engine.Past, error) {
	ctx, cancel := context.WithTimeout(ctx, pastTimeout)
	defer cancel()
	sink, err := c.queryable()
	if err != nil {
		return nil, err
	}
	return past.Read(ctx, sink, past.OneThread, c.cfg.Prices, services, from, until)
}
