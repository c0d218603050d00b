package stored

import (
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/analyzer/promptcache"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// A Cache is what became of the provider's prompt cache in a call, in tokens. Names in JSON are those of columns without cache_.
type Cache struct {
	Input      int64  `json:"-"`
	Read       int64  `json:"read_tokens"`
	Written    int64  `json:"written_tokens"`
	Hour       int64  `json:"hour_tokens,omitempty"` // of Written, held for an hour
	Reusable   int64  `json:"reusable_tokens"`
	Missed     int64  `json:"missed_tokens"`
	Break      string `json:"break,omitempty"` // why tokens were missed
	Element    string `json:"element,omitempty"`
	Detail     string `json:"detail,omitempty"`
	Confidence string `json:"confidence,omitempty"`
}

// CacheColumns are the columns that CacheOf reads.
const CacheColumns = `input_tokens, cached_tokens, cache_written_tokens, cache_hour_tokens, cache_reusable_tokens, cache_missed_tokens, cache_break, cache_element,
	cache_detail, cache_confidence`

// CacheOf returns what became of the cache in a stored call; nil if that is not known.
func CacheOf(r Row) *Cache {
	if r["cache_reusable_tokens"] == nil {
		return nil
	}
	return &Cache{
		Input: r.Int64("input_tokens"), Read: r.Int64("cached_tokens"), Written: r.Int64("cache_written_tokens"), Hour: r.Int64("cache_hour_tokens"),
		Reusable: r.Int64("cache_reusable_tokens"), Missed: r.Int64("cache_missed_tokens"), Break: r.Text("cache_break"),
		Element: r.Text("cache_element"), Detail: r.Text("cache_detail"), Confidence: r.Text("cache_confidence"),
	}
}

// String returns what was read, what could have been, and why it was not: "read 0 of 41,200 reusable tokens: the system prompt changed
// (time)".
func (c *Cache) String() string {
	var b strings.Builder
	switch {
	case c.Missed > 0:
		fmt.Fprintf(&b, "read %s of %s: ", quantity.Count(c.Reusable-c.Missed), quantity.Plural(c.Reusable, "reusable token"))
		if c.Confidence == promptcache.Likely {
			b.WriteString("probably ")
		}
		b.WriteString(promptcache.Words(c.Break, c.Element, c.Detail))
	default:
		fmt.Fprintf(&b, "read %s of %s", quantity.Count(c.Read), quantity.Plural(c.Input, "input token"))
	}
	if c.Written > 0 {
		fmt.Fprintf(&b, "; wrote %s", quantity.Count(c.Written))
		if c.Hour > 0 {
			fmt.Fprintf(&b, ", %s of them for an hour", quantity.Count(c.Hour))
		}
	}
	return b.String()
}
