package stored

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestGuessed(t *testing.T) {
	f := func(guessed, failed int64, want string) {
		t.Helper()
		must.Equal(t, Guessed("the server failed", guessed, failed), want, "%d of %d", guessed, failed)
	}
	f(0, 8, "the server failed")
	f(8, 8, "probably the server failed")
	f(3, 8, "the server failed (guessed for 3 of 8 calls)")
}

func TestWhyDropped(t *testing.T) {
	f := func(dropped string, share float64, want string) {
		t.Helper()
		must.Equal(t, (Exchange{Service: "shop", TextsDropped: dropped, TextsShare: share}).WhyDropped(), want, "%s, %v", dropped, share)
	}
	const failing = " stored (content.sampling), and all in which a call fails or has a finding"
	f("", 0.1, "")
	f("sampled", float64(float32(0.1)), "of the conversations of shop, 1 in 10 is"+failing)
	f("sampled", float64(float32(0.35)), "of the conversations of shop, 35% are"+failing)
	f("sampled", 0, "of shop, only conversations in which a call fails or has a finding are stored (content.sampling)")
	f("quota", 1, "shop had stored as many texts as content.sampling allows in an hour")
}
