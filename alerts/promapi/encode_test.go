package promapi

import (
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Histograms are encoded as util/jsonutil of Prometheus does.
func TestEncodeHistograms(t *testing.T) {
	calls := &histogram.FloatHistogram{
		Schema: histogram.CustomBucketsSchema, CustomValues: []float64{0.001, 0.002, 0.004}, Count: 6, Sum: 0.5,
		PositiveSpans: []histogram.Span{{Length: 4}}, PositiveBuckets: []float64{1, 2, 0, 3},
	}
	tokens := &histogram.FloatHistogram{Schema: 0, Count: 1.5, Sum: 3, PositiveSpans: []histogram.Span{{Offset: 1, Length: 1}}, PositiveBuckets: []float64{1.5}}
	none := &histogram.FloatHistogram{Schema: 0}
	got, _ := encodeValue(promql.Matrix{
		{Metric: labels.FromStrings("a", "b"), Histograms: []promql.HPoint{{T: 1000, H: calls}, {T: 2000, H: none}}},
		{Floats: []promql.FPoint{{T: 1000, F: 2}}, Histograms: []promql.HPoint{{T: 2000, H: tokens}}},
	}, 0)
	must.Equal(t, string(got), `[{"metric":{"a":"b"},"histograms":[`+
		`[1,{"count":"6","sum":"0.5","buckets":[[3,"-Inf","0.001","1"],[0,"0.001","0.002","2"],[0,"0.004","+Inf","3"]]}],[2,{"count":"0","sum":"0"}]]},`+
		`{"metric":{},"values":[[1,"2"]],"histograms":[[2,{"count":"1.5","sum":"3","buckets":[[0,"1","2","1.5"]]}]]}]`, "matrix")
	got, _ = encodeValue(promql.Vector{{T: 2000, H: none}, {T: 2000, F: 1}}, 0)
	must.Equal(t, string(got), `[{"metric":{},"histogram":[2,{"count":"0","sum":"0"}]},{"metric":{},"value":[2,"1"]}]`, "vector")
}
