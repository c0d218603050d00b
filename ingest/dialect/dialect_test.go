package dialect

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Every dialect of wire has a row with what the readers of rows need.
func TestRows(t *testing.T) {
	for _, name := range wire.Dialects {
		d := Of(name)
		if d == nil || d.Path == nil || d.Response == nil || d.SDK == (SDK{}) || d.message == nil && (d.text == nil || d.thought == nil || d.call == nil || d.reply == nil) {
			t.Errorf("%s has no complete row", name)
			continue
		}
		target, _ := wire.DetectURL("/" + string(name.Variants()[0]) + d.Path("", "m"))
		must.Equal(t, target.Dialect, name, "the path of %s is one of", name)
		if p := name.Descriptor().Places; p == (wire.Places{}) || name.Descriptor().Texts.Part == "" {
			t.Errorf("%s has no places or texts in wire", name)
		}
	}
	if len(rows) != len(wire.Dialects) || Of(wire.Other) != nil {
		t.Errorf("%d rows, %d dialects", len(rows), len(wire.Dialects))
	}
}
