package differs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A group is n calls with the same values.
type group struct {
	n      int
	hit    uint8
	values string // attribute=value, separated by commas
}

func row(groups ...group) stored.Row {
	var hits []uint8
	var values [][]string
	var all [2]uint64
	for _, g := range groups {
		for range g.n {
			hits, values = append(hits, g.hit), append(values, strings.Split(strings.ReplaceAll(g.values, "=", "\n"), ","))
			all[g.hit]++
		}
	}
	return stored.Row{"is_hit": hits, "values": values, "all_hits": all[1], "all_others": 10 * all[0], "hits_each": uint64(1), "others_each": uint64(10)}
}

func TestOf(t *testing.T) {
	f := func(want string, r stored.Row) {
		t.Helper()
		found := Of([]stored.Row{r})
		_, rows := found.Table()
		got := found.Sentence
		for _, r := range rows {
			got += "\n" + strings.TrimSpace(fmt.Sprintln(r...))
		}
		must.Equal(t, got, want, "result")
	}
	// A version is named before what came with it.
	f(`only version 2: about 40 of 540 calls; about 0 of 1,000 others
version 2 40 540 7.4 100 33
declared tools t2 40 540 7.4 100 33`, row(
		group{40, 1, "declared tools=t2,version=2"}, group{50, 0, "declared tools=t2,version=2"}, group{100, 0, "declared tools=t1,version=1"},
	))
	// Half of the others and more have as long a history, so it says nothing.
	f(`only version 2 and region eu: about 40 of 40 calls; about 0 of 2,000 others
version 2 and region eu 40 40 100 100 0`, row(
		group{40, 1, "version=2,attribute region=eu,declared tools=t2,history=3 or more messages"},
		group{50, 0, "version=2,attribute region=us,declared tools=t2,history=3 or more messages"},
		group{50, 0, "version=1,attribute region=eu,declared tools=t1,history=3 or more messages"},
		group{100, 0, "version=1,attribute region=us,declared tools=t1"},
	))
	// What makes calls hits is not named.
	chosen := row(group{40, 1, "version=2,attribute region=eu"}, group{50, 0, "version=1,attribute region=us"})
	chosen["wanted_values"] = []string{"region=eu"}
	f("only version 2: about 40 of 40 calls; about 0 of 500 others\nversion 2 40 40 100 100 0", chosen)
	f("", row(group{40, 1, "version=2"}, group{40, 0, "version=2"}))
	f("", row(group{40, 1, "version=2"}))
	if found := Of(nil); found.Hits+found.Others != 0 || found.Sentence != "" {
		t.Errorf("%+v", found)
	}
}
