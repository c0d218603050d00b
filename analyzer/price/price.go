// Package price knows what tokens cost: the price table of the configuration, and public list prices as its default.
package price

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Price is the price of a model in USD per million tokens, which is also the price of a token in microdollars.
type Price struct {
	Provider    string  `yaml:"provider"` // value of the column provider; empty for any provider
	Model       string  `yaml:"model"`    // name of the model; * matches any text
	Input       float64 `yaml:"input"`
	CachedInput float64 `yaml:"cached_input"`
	Output      float64 `yaml:"output"`
	CacheWrite  float64 `yaml:"cache_write,omitempty"` // of input written to the provider's cache; 0: as Input
	CacheHour   float64 `yaml:"cache_hour,omitempty"`  // of input written to be held for an hour; 0: as CacheWrite
}

// Tokens are the tokens of a call. Cached and Written are parts of Input, and Hour is one of Written.
type Tokens struct {
	Input   int64
	Cached  int64 // read from the provider's cache
	Written int64 // written to it
	Hour    int64 // written to be held for an hour
	Output  int64
}

// Microdollars returns the cost of a call. The fragment {dollars} of dashboards/queries computes the same.
func (p *Price) Microdollars(t Tokens) float64 {
	write, hour := p.written()
	return float64(t.Input-t.Cached-t.Written)*p.Input + float64(t.Cached)*p.CachedInput + float64(t.Written-t.Hour)*write + float64(t.Hour)*hour +
		float64(t.Output)*p.Output
}

// written returns the prices of input written to the cache, for the usual time and for an hour.
func (p *Price) written() (write, hour float64) {
	write = cmp.Or(p.CacheWrite, p.Input)
	return write, cmp.Or(p.CacheHour, write)
}

// Table is a price table. The first row that matches a model applies; a model without a matching row has an unknown cost.
type Table []Price

// Matches reports whether name is as the pattern, in which * matches any text.
func Matches(pattern, name string) bool {
	first, rest, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern == name
	}
	if !strings.HasPrefix(name, first) {
		return false
	}
	name = name[len(first):]
	for {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], next
	}
}

// maxKnown bounds the models that a Lookup remembers.
const maxKnown = 4096

// A Lookup finds prices in a Table that does not change, and remembers them. It is not safe for concurrent use.
type Lookup struct {
	table Table
	known map[[2]string]*Price
}

// NewLookup returns a Lookup of t.
func NewLookup(t Table) *Lookup { return &Lookup{t, map[[2]string]*Price{}} }

// Of returns the price of a model, or nil if it is unknown.
func (l *Lookup) Of(provider, model string) *Price {
	key := [2]string{provider, model}
	p, ok := l.known[key]
	if !ok {
		if len(l.known) >= maxKnown {
			clear(l.known)
		}
		row := func(r Price) bool { return (r.Provider == "" || r.Provider == provider) && Matches(r.Model, model) }
		if i := slices.IndexFunc(l.table, row); i >= 0 {
			p = &l.table[i]
		}
		l.known[[2]string{strings.Clone(provider), strings.Clone(model)}] = p
	}
	return p
}

// Validate returns an error for every invalid value, joined.
func (t Table) Validate() error {
	var errs []error
	for i, row := range t {
		if row.Model == "" {
			errs = append(errs, fmt.Errorf("prices[%d].model: is empty; * matches any model", i))
		}
		check := func(key string, usd float64) {
			if !(usd >= 0) || math.IsInf(usd, 0) { // also rejects NaN
				errs = append(errs, fmt.Errorf("prices[%d].%s: %v is not a price", i, key, usd))
			}
		}
		check("input", row.Input)
		check("cached_input", row.CachedInput)
		check("output", row.Output)
		check("cache_write", row.CacheWrite)
		check("cache_hour", row.CacheHour)
	}
	return errors.Join(errs...)
}

var likePattern = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`)

// Bound returns t as the value of the parameter {prices:String} of statements: a JSON array of rows [provider, LIKE pattern, input,
// cached input, output, written to the cache, written for an hour]. The fragment {price} reads it.
func (t Table) Bound() string {
	rows := make([][7]any, len(t))
	for i, r := range t {
		write, hour := r.written()
		rows[i] = [7]any{r.Provider, likePattern.Replace(r.Model), r.Input, r.CachedInput, r.Output, write, hour}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return "[]" // only for a table that Validate rejects
	}
	return string(text)
}
