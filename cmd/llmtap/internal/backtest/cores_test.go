package backtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A traffic contains the calls of one service in the order of time.
type traffic []call

type call struct {
	at  time.Time
	row []any // of callsSQL
}

const trafficColumns = "second service stage provider model kind code why root n example reason_counts measures"

// recordedTraffic returns the recorded exchanges as calls of half an hour. The source is the stage.
func recordedTraffic(t *testing.T, from time.Time) (all traffic) {
	t.Helper()
	recordedtest.Lines(t, recordedtest.Exchanges, func(n int, line []byte) {
		var x struct {
			Source, API string
			Status      int
			Request     struct{ Model string }
		}
		_ = json.Unmarshal(line, &x) // without a model, if the request is no object
		c := call{at: from.Add(time.Duration(n/2) * time.Second)}
		kind, why := "call", ""
		if x.Status >= 400 {
			kind, why = "failed", "invalid_request"
		}
		c.row = []any{uint32(c.at.Unix()), "recorded", x.Source, x.API, x.Request.Model, kind, uint16(x.Status), why, "", uint64(1), []string{fmt.Sprintf("x%04d", n), "", ""}, "[]", "([],[])"}
		all = append(all, c)
	})
	return all
}

func (all traffic) Query(_ context.Context, sql string, params map[string]string) (*clickhouse.Result, error) {
	res := result(trafficColumns)
	for _, c := range all {
		if at := rows.TimeParam(c.at); sql == callsSQL && params["from"] <= at && at < params["to"] {
			res.Rows = append(res.Rows, c.row)
		}
	}
	return res, nil
}

// The report does not depend on the number of cores.
func TestCores(t *testing.T) {
	slowtest.Skip(t)
	all := recordedTraffic(t, from)
	cfg := engine.Default()
	cfg.EvaluationInterval = 10 * time.Second
	output := func(cores int) []byte {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		r := must.Get(New(cfg, from, from.Add(time.Hour), &terminal.Style{}))(t)
		var b bytes.Buffer
		must.Do(t, errors.Join(r.Run(t.Context(), cfg, price.Default(), all, io.Discard), r.Write(&b, command.JSON)))
		if len(r.Alerts) == 0 {
			t.Errorf("no alerts in %d calls", r.Calls)
		}
		return b.Bytes()
	}
	want := output(1)
	must.Equal(t, string(output(5)), string(want), "5 cores, and one")
}
