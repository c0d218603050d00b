package promapi

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// encodeValue returns the result of a query as Prometheus encodes it, with at most limit series if limit is positive. Points are
// written here, because a dashboard asks for a hundred thousand.
func encodeValue(v parser.Value, limit int) (_ json.RawMessage, cut bool) {
	var b []byte
	switch v := v.(type) {
	case promql.Scalar:
		return appendPoint(nil, v.T, v.V), false
	case promql.String:
		b = append(appendTime([]byte{'['}, v.T), ',')
		return append(appendText(b, v.V), ']'), false
	case promql.Vector:
		if cut = limit > 0 && len(v) > limit; cut {
			v = v[:limit]
		}
		b = append(b, '[')
		for i, s := range v {
			b = appendMetric(b, i, s.Metric)
			if s.H != nil {
				b = append(appendHistogram(append(b, `,"histogram":`...), s.T, s.H), '}')
				continue
			}
			b = append(b, `,"value":`...)
			b = append(appendPoint(b, s.T, s.F), '}')
		}
		return append(b, ']'), cut
	case promql.Matrix:
		if cut = limit > 0 && len(v) > limit; cut {
			v = v[:limit]
		}
		b = append(b, '[')
		for i, s := range v {
			b = appendMetric(b, i, s.Metric)
			if len(s.Floats) > 0 || len(s.Histograms) == 0 {
				b = append(b, `,"values":[`...)
				for j, p := range s.Floats {
					if j > 0 {
						b = append(b, ',')
					}
					b = appendPoint(b, p.T, p.F)
				}
				b = append(b, ']')
			}
			for j, p := range s.Histograms {
				if b = append(b, ','); j == 0 {
					b = append(b, `"histograms":[`...)
				}
				b = appendHistogram(b, p.T, p.H)
			}
			if len(s.Histograms) > 0 {
				b = append(b, ']')
			}
			b = append(b, '}')
		}
		return append(b, ']'), cut
	}
	return []byte("null"), false
}

// appendMetric appends the beginning of the i-th series.
func appendMetric(b []byte, i int, l labels.Labels) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = append(b, `{"metric":{`...)
	first := true
	l.Range(func(l labels.Label) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendText(b, l.Name), ':')
		b = appendText(b, l.Value)
	})
	return append(b, '}')
}

func appendText(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // never fails for a string
	return append(b, text...)
}

// appendPoint appends a sample at t, in Unix milliseconds.
func appendPoint(b []byte, t int64, v float64) []byte {
	b = append(appendTime(append(b, '['), t), ',')
	return append(appendFloat(b, v), ']')
}

// appendFloat appends v in quotes.
func appendFloat(b []byte, v float64) []byte {
	format := byte('f')
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return append(strconv.AppendFloat(append(b, '"'), v, format, -1, 64), '"')
}

// appendHistogram appends a histogram at t: its count, its sum and its buckets with values. The first number of a bucket says which bounds
// belong to it: 0 the upper one, 3 both.
func appendHistogram(b []byte, t int64, h *histogram.FloatHistogram) []byte {
	b = append(appendTime(append(b, '['), t), `,{"count":`...)
	b = append(appendFloat(b, h.Count), `,"sum":`...)
	b = appendFloat(b, h.Sum)
	next := `,"buckets":[`
	for it := h.AllBucketIterator(); it.Next(); {
		x := it.At()
		if x.Count == 0 {
			continue
		}
		b = append(b, next...)
		next = ","
		bounds := "[0,"
		if x.LowerInclusive {
			bounds = "[3,"
		}
		b = append(appendFloat(append(b, bounds...), x.Lower), ',')
		b = append(appendFloat(b, x.Upper), ',')
		b = append(appendFloat(b, x.Count), ']')
	}
	if next == "," {
		b = append(b, ']')
	}
	return append(b, "}]"...)
}

// appendTime appends t, in Unix milliseconds, as seconds.
func appendTime(b []byte, t int64) []byte {
	return strconv.AppendFloat(b, float64(t)/1000, 'f', -1, 64)
}
