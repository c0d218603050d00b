package rules

import "testing"

func TestHelp(t *testing.T) {
	for _, name := range KnownMetrics() {
		if Help(name) == "" {
			t.Errorf("%s has no help text", name)
		}
	}
	if len(helps) != len(KnownMetrics()) {
		t.Errorf("%d help texts, %d metrics", len(helps), len(KnownMetrics()))
	}
}
