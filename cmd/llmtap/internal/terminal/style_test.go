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
	if got := s.Red("no"); got != "no" {
		t.Errorf("without colors: %q", got)
	}
	s.Color = true
	if got, want := s.Red("no")+s.Bold(""), "\x1b[31mno\x1b[0m"; got != want {
		t.Errorf("with colors: %q, want %q", got, want)
	}
}

func TestTime(t *testing.T) {
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	at := time.Date(2026, 11, 20, 4, 7, 2, 5e8, time.UTC)
	f := func(zone *time.Location, at time.Time, want string) {
		t.Helper()
		if got := (&Style{Zone: zone}).Time(at); got != want {
			t.Errorf("%v in %v: %q, want %q", at, zone, got, want)
		}
	}
	f(nil, at, "2026-11-20 04:07:02 UTC")
	f(berlin, at, "2026-11-20 05:07:02 CET")
	f(berlin, at.AddDate(0, -4, 0), "2026-07-20 06:07:02 CEST")
	f(berlin, time.Time{}, "")
	f(berlin, time.Unix(0, 0), "")
}
