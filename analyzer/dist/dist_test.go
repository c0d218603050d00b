package dist

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestBucket(t *testing.T) {
	for v, want := range map[uint64]int{0: 0, 1: 0, 2: 4, 3: 7, 4: 8, 5: 10, 8: 12, 9: 13, 1000: 40, 1024: 40, 1025: 41, math.MaxUint64: 256} {
		must.Equal(t, Bucket(v), want, "%d", v)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		v := rnd.Uint64() >> rnd.UintN(64)
		if b := Bucket(v); v > Upper(b) || b > 0 && v <= Upper(b-1) {
			t.Errorf("%d is in bucket %d: (%d, %d]", v, b, Upper(b-1), Upper(b))
		}
	}
}

func TestQuantile(t *testing.T) {
	var d Dist
	must.Equal(t, d.Quantile(0.5), 0, "quantile of nothing")
	rnd := rand.New(rand.NewPCG(2, 2))
	var values []float64
	for range 20_000 {
		v := math.Round(math.Exp(7 + rnd.NormFloat64()))
		values = append(values, v)
		d.Add(uint64(v))
	}
	slices.Sort(values)
	for _, q := range []float64{0.05, 0.5, 0.95, 0.99} {
		v := d.Quantile(q)
		if exact := values[int(q*float64(len(values)))]; math.Abs(v/exact-1) > 0.03 {
			t.Errorf("quantile %g is %g, not %g", q, v, exact)
		}
		if above := d.Above(v) / float64(d.N); math.Abs(above-(1-q)) > 1e-9 {
			t.Errorf("%g are above quantile %g", above, q)
		}
	}
}

func TestMergeAndJSON(t *testing.T) {
	var a, b Dist
	for _, v := range []uint64{700, 3, 0, 700} {
		a.Add(v)
	}
	for _, v := range []uint64{1, 90_000} {
		b.Add(v)
	}
	c := a.Clone()
	c.Merge(&b)
	text, err := json.Marshal(c)
	must.Do(t, err)
	must.Equal(t, string(text), `"91404 0x2 7 31x2 28"`, "JSON")
	back := must.JSON[Dist](t, text)
	must.Agree(t, cmp.Diff(c, back))
	must.Equal(t, a.N, 4, "values of what was cloned")
	for _, bad := range []string{`""`, `"x"`, `"-1"`, `"1 257"`, `"1 3x0"`, `"1 3 0"`, `"1 3x"`, `"1 "`, `"1 2  3"`, "[1,2]"} {
		if json.Unmarshal([]byte(bad), &back) == nil {
			t.Errorf("%s was read", bad)
		}
	}
	must.Agree(t, cmp.Diff(c, back)) // as before the errors
	c.Reset()
	must.Equal(t, string(must.Get(c.MarshalText())(t)), "0", "text after Reset")
	must.Do(t, json.Unmarshal([]byte(`"0"`), &back))
	must.Equal(t, back.IsZero(), true, "is empty")
}
