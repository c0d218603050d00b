package cause

import "testing"

// TestFaultOutranksStatus: proxies and servers answer 500 to faults of the request too, and call them internal errors.
func TestFaultOutranksStatus(t *testing.T) {
	all, wrong := 0, 0
	check := func(text, want string, status int) {
		t.Helper()
		all++
		if got := Classify(Input{Status: status, Text: []byte(text)}); got.ID != want {
			wrong++
			t.Errorf("%d: %s by %s instead of %s: %s", status, got.ID, got.StatedBy, want, text)
		}
	}
	for i, s := range sentences(t, "testdata/unseen.jsonl") {
		want := Classify(Input{Status: 400, Text: []byte(s.Text)})
		switch want.Class {
		case "provider", "unexplained":
			continue
		}
		check(wrap(i, s.Text, 500), want.ID, 500)
		check(`{"error":{"message":`+quote(s.Text)+`,"type":"server_error","code":500}}`, want.ID, 500)
		check(`{"error":{"message":`+quote("Internal server error: "+s.Text)+`,"type":"internal_server_error"}}`, want.ID, 500)
		check("litellm.InternalServerError: InternalServerError: OpenAIException - "+s.Text, want.ID, 500)
		check(`{"error":{"message":`+quote("upstream error: "+s.Text)+`,"type":"upstream_error","code":"do_request_failed"}}`, want.ID, 500)
	}
	t.Logf("%d of %d differ", wrong, all)
}
