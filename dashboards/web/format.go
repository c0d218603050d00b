package web

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/quantity"
)

var functions = template.FuncMap{
	"subject":  subject,
	"number":   number,
	"measure":  measure,
	"percent":  quantity.Share[int64],
	"seconds":  latency,
	"money":    quantity.Money,
	"short":    short,
	"ago":      ago,
	"duration": quantity.Span,
	"plural":   quantity.Plural[int64],
	"asset":    func(name string) string { return "/static/" + name + "?v=" + assetHash },
	"capital":  capital,
	"pathpart": url.PathEscape,
	"dict":     dict,
	"add":      func(a, b int) int { return a + b },
	"int64":    func(n int) int64 { return int64(n) },
}

// dict returns its arguments, names and values in turn, as the data of a template.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: a name has no value")
	}
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is not a name", pairs[i])
		}
		out[name] = pairs[i+1]
	}
	return out, nil
}

// number returns a count of any type with separators.
func number(value any) string {
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		return quantity.Count(v.Int())
	case v.CanUint():
		return quantity.Count(v.Uint())
	case v.CanFloat():
		return quantity.Count(v.Float())
	}
	return fmt.Sprint(value)
}

// latency returns a latency; – if it is not known.
func latency(seconds float64) string {
	if seconds == 0 {
		return "–"
	}
	return quantity.Latency(seconds)
}

// measure returns a level with three digits: 0.125, 12.5, 1,250.
func measure(v float64) string {
	if math.Abs(v) >= 1000 {
		return quantity.Count(int64(v))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// short returns the first n characters of s.
func short(n int, s string) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimSpace(string([]rune(s[:min(len(s), 4*n)])[:n-1])) + "…"
}

// capital returns a sentence that begins with a capital letter.
func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(r)) + s[n:]
}

func ago(t, now time.Time) string {
	if now.Sub(t) < 0 {
		return "in " + quantity.Span(t.Sub(now))
	}
	return quantity.Span(now.Sub(t)) + " ago"
}

// A Time is a time to show: relative, and absolute in the zone of the viewer.
type Time struct {
	T   time.Time
	Now time.Time
	in  *time.Location
}

// At returns t as the viewer of v sees it.
func (v *View) At(t time.Time) Time { return Time{t, v.Now, v.Zone} }

// Relative returns for example "5 min ago".
func (t Time) Relative() string { return ago(t.T, t.Now) }

// Absolute returns the time, with the date unless it is today.
func (t Time) Absolute() string {
	at, now := t.T.In(t.in), t.Now.In(t.in)
	layout := "15:04:05"
	if at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		layout = "Jan 2 15:04:05"
		if at.Year() != now.Year() {
			layout = "2006-01-02 15:04:05"
		}
	}
	if t.in == time.UTC {
		layout += " UTC"
	}
	return at.Format(layout)
}

// Full returns the time with its date and zone.
func (t Time) Full() string { return t.T.In(t.in).Format("2006-01-02 15:04:05.000 MST") }

// ISO returns the time as in the attribute datetime.
func (t Time) ISO() string { return t.T.UTC().Format(time.RFC3339Nano) }

// IsZero reports whether there is no time.
func (t Time) IsZero() bool { return t.T.IsZero() }

// Future reports whether the time has not come yet.
func (t Time) Future() bool { return t.T.After(t.Now) }
