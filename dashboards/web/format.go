package web

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var functions = template.FuncMap{
	"number":   number,
	"measure":  measure,
	"percent":  percent,
	"seconds":  seconds,
	"money":    money,
	"short":    short,
	"ago":      ago,
	"duration": duration,
	"plural":   plural,
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

// number returns n with separators: 12,345. From 1 million on, it returns three digits and a unit: 1.23 M.
func number(value any) string {
	var n float64
	switch v := value.(type) {
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case uint64:
		n = float64(v)
	case float64:
		n = v
	default:
		return fmt.Sprint(value)
	}
	switch {
	case n >= 1e9:
		return strconv.FormatFloat(n/1e9, 'f', 2, 64) + " G"
	case n >= 1e6:
		return strconv.FormatFloat(n/1e6, 'f', 2, 64) + " M"
	}
	digits := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// measure returns a level with three digits: 0.125, 12.5, 1,250.
func measure(v float64) string {
	if math.Abs(v) >= 1000 {
		return number(v)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// percent returns the share of part in whole.
func percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	p := 100 * float64(part) / float64(whole)
	switch {
	case part == 0:
		return "0 %"
	case p < 0.1:
		return "<0.1 %"
	case p < 10:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// seconds returns a latency.
func seconds(s float64) string {
	switch {
	case s < 1:
		return strconv.FormatFloat(s*1000, 'f', 0, 64) + " ms"
	case s < 10:
		return strconv.FormatFloat(s, 'f', 2, 64) + " s"
	}
	return strconv.FormatFloat(s, 'f', 1, 64) + " s"
}

func money(usd float64) string {
	switch {
	case usd == 0:
		return "$0"
	case usd < 0.01:
		return "<$0.01"
	}
	return "$" + strconv.FormatFloat(usd, 'f', 2, 64)
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

// duration returns d in its two largest units: 2 h 5 min.
func duration(d time.Duration) string {
	d = d.Abs()
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.of, u.name)
		if i+1 < len(units) && d/u.of < 10 {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
			}
		}
		return text
	}
	return "0 s"
}

func ago(t, now time.Time) string {
	if now.Sub(t) < 0 {
		return "in " + duration(t.Sub(now))
	}
	return duration(now.Sub(t)) + " ago"
}

// plural returns n and its noun: 1 call, 2 calls.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
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
