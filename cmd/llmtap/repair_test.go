package main

import (
	"strings"
	"testing"
)

// checkRepairs repairs a stored conversation whose newest request was refused. The rest of the history must be there, and the
// result must pass lint.
func (s showTest) checkRepairs(t *testing.T, name, conversation string) {
	t.Helper()
	var repaired, report strings.Builder
	args := []string{"repair", "--conversation", conversation, "--data-dir", s.up.dir}
	if err := run(t.Context(), args, nil, &repaired, &report, columns80); err != nil {
		t.Errorf("%s: repair: %v %s", name, err, &report)
		return
	}
	narrow(t, name, report.String())
	t.Logf("%s:\n%s%s", name, &report, &repaired)
	var stdout, stderr strings.Builder
	if err := run(t.Context(), []string{"lint", "-"}, strings.NewReader(repaired.String()), &stdout, &stderr, columns80); err != nil {
		t.Errorf("%s: lint: %v %s%s\n%s", name, err, &stdout, &stderr, &repaired)
	}
	if name == "the answer saved as role and content" && (!strings.Contains(repaired.String(), `"name":"read"`) || !strings.Contains(report.String(), "nothing lost")) {
		t.Errorf("the call was not restored from the stored answer:\n%s\n%s", &report, &repaired)
	}
}
