package terminal

import (
	"bytes"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestStyle(t *testing.T) {
	env := map[string]string{"COLUMNS": "60"}
	s := NewStyle(&bytes.Buffer{}, func(k string) string { return env[k] })
	if s.Width != 60 || s.Color || s.Zone != time.Local {
		t.Errorf("not a terminal: %+v", s)
	}
	must.Equal(t, s.Red("no"), "no", "without colors")
	s.Color = true
	must.Equal(t, s.Red("no")+s.Bold(""), "\x1b[31mno\x1b[0m", "with colors")
}

func TestTime(t *testing.T) {
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	at := time.Date(2026, 11, 20, 4, 7, 2, 5e8, time.UTC)
	f := func(zone *time.Location, at time.Time, want string) {
		t.Helper()
		must.Equal(t, (&Style{Zone: zone}).Time(at), want, "%v in %v", at, zone)
	}
	f(nil, at, "2026-11-20 04:07:02 UTC")
	f(berlin, at, "2026-11-20 05:07:02 CET")
	f(berlin, at.AddDate(0, -4, 0), "2026-07-20 06:07:02 CEST")
	f(berlin, time.Time{}, "")
	f(berlin, time.Unix(0, 0), "")
}
