package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// Exchanges that ClickHouse refuses, one in a hundred, are dead-lettered; all others are stored.
func TestPoisonRows(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	up := startUp(t)
	up.ready(t)
	rows := up.rows()
	defer rows.close()
	load := startAgents(t, up.url(), 50)
	rows.waitNewer(t, time.Now(), 5*time.Minute)
	// Rows that were accepted stay acceptable: a table that refuses them is at fault itself.
	execute(t, rows, fmt.Sprintf("ALTER TABLE llmtap.exchanges ADD CONSTRAINT poison CHECK cityHash64(exchange_id) %% 100 != 0 OR started_at < fromUnixTimestamp64Milli(%d)", time.Now().UnixMilli()))
	js := streams(t, up.url())
	waitFor(t, up, "dead letters", func() bool { return len(deadExchanges(t, js)) >= 3 })
	rows.waitNewer(t, time.Now(), 5*time.Minute)
	acked := load.stop(t)

	var dead, missing []string
	least := len(acked)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		dead = deadExchanges(t, js)
		stored, duplicates, err := storedRows(t.Context(), rows)
		must.Do(t, err)
		missing = slices.DeleteFunc(slices.Clone(acked), func(id string) bool { _, ok := stored.exchanges[id]; return ok })
		slices.Sort(missing)
		if len(missing) < least { // on a busy machine, the backlog takes its time
			least, deadline = len(missing), time.Now().Add(5*time.Minute)
		}
		if slices.Equal(dead, missing) && duplicates == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d exchanges are not stored, %d are dead letters, %d duplicate rows\n%s", len(missing), len(acked), len(dead), duplicates, up.stderr.String())
		}
	}
	t.Logf("%d exchanges, %d of them dead letters", len(acked), len(dead))
}

// execute runs a statement.
func execute(t *testing.T, s *store, sql string) {
	t.Helper()
	dsn, ok := s.dsn()
	if !ok {
		t.Fatal("no ClickHouse")
	}
	resp := must.Get(http.Post(dsn, "text/plain", strings.NewReader(sql)))(t)
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", sql, body)
	}
}

// deadExchanges returns the sorted ids of the exchanges in the dead letters.
func deadExchanges(t *testing.T, js natsjs.JetStream) []string {
	t.Helper()
	var ids []string
	err := replayStream(t.Context(), js, event.StreamDead, func(m natsjs.Msg, _ *natsjs.MsgMetadata) error {
		var e analyzer.Exchange
		if err := json.Unmarshal(m.Data(), &e); err != nil {
			return err
		}
		h := m.Headers()
		if h.Get(jetstream.HeaderDeadSubject) != "exchanges" || !strings.Contains(h.Get(jetstream.HeaderDeadError), "poison") || e.Seq == 0 {
			t.Errorf("dead letter on %s: %v", m.Subject(), h)
		}
		ids = append(ids, e.ID)
		return nil
	})
	must.Do(t, err)
	slices.Sort(ids)
	return ids
}
