package analyzer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// Bounds of what is remembered of contents.
const (
	maxKnown  = 1 << 17 // that are known to be stored, in each of two generations
	maxMasked = 1 << 20 // bytes of the buffer that redaction keeps
	maxSame   = 8       // leading system messages of a conversation
	lastBytes = 160     // about what one of them takes

	// knownFor is how long a content is not stored again: what is used for long is, which renews its time to live.
	knownFor = 12 * time.Hour
)

// contents remembers what was stored and when, in two generations.
type contents struct {
	new, old map[contentID]storedAt

	sum    hash.Hash         // SHA-256
	digest [sha256.Size]byte // room for one
	masked []byte            // room for a redacted content
}

// storedAt holds no pointer, so that collecting garbage takes no look at what may be a quarter of a million.
type storedAt struct {
	nanos int64 // stream time since 1970
	split int   // where a part of it ends, after redaction
}

// contentID is the place of a content, four bytes, and the first 128 bits of the SHA-256 of the captured bytes. The place is
// the second in which the first request seen of its conversation was sent, so that a store that sorts by id has side by side what is read
// together, is alike and expires together: an answer and the message that the next request makes of it, conversations of
// one kind. Of recorded traffic that takes half of what an order by hash takes. What the conversations of an agent share,
// its prompts and tools, is at place 0 and stored once for all of them.
type contentID [20]byte

const placeShared = 0

// placeOf is by the clock of the agent, not by the stream's: traffic that is imported twice is at one place.
func placeOf(started time.Time) uint32 {
	return uint32(min(max(started.Unix(), placeShared+1), math.MaxUint32))
}

func (id *contentID) String() string {
	var buf [2 * len(id)]byte
	hex.Encode(buf[:], id[:])
	return string(buf[:])
}

// idOf is the id of a content that is in two pieces, the second of which may be none.
func (c *contents) idOf(place uint32, first, last []byte) (id contentID) {
	binary.BigEndian.PutUint32(id[:4], place)
	if len(last) == 0 {
		c.digest = sha256.Sum256(first)
	} else {
		if c.sum == nil {
			c.sum = sha256.New()
		}
		c.sum.Reset()
		c.sum.Write(first)
		c.sum.Write(last)
		c.sum.Sum(c.digest[:0])
	}
	copy(id[4:], c.digest[:])
	return id
}

// find returns what is known of id, unless that is too old.
func (c *contents) find(id contentID, now time.Time) (storedAt, bool) {
	at, ok := c.new[id]
	if !ok {
		if at, ok = c.old[id]; ok {
			c.put(id, at)
		}
	}
	return at, ok && now.UnixNano()-at.nanos < int64(knownFor)
}

func (c *contents) put(id contentID, at storedAt) {
	if c.new == nil || len(c.new) >= maxKnown {
		c.old, c.new = c.new, make(map[contentID]storedAt)
	}
	c.new[id] = at
}

// content stores a part of a body, once at its place, and returns its id; "" when it is too large.
func (a *Analyzer) content(place uint32, kind string, body []byte) string {
	_, id, _ := a.split(place, kind, body, nil)
	return id
}

// split is content of two pieces, and returns also where the second one begins in what is stored.
func (a *Analyzer) split(place uint32, kind string, first, last []byte) (key contentID, id string, at int) {
	n := len(first) + len(last)
	if n > maxContent {
		a.drop(dropContent)
		return key, "", 0
	}
	key = a.contents.idOf(place, first, last)
	id = key.String()
	// Replay may begin in the middle of a conversation, which is then at another place than before: what is not put out
	// is not known to be stored there.
	if !a.emit && place != placeShared {
		return key, id, len(first)
	}
	if known, ok := a.contents.find(key, a.now); ok {
		return key, id, known.split
	}
	text := a.masked(a.contents.masked[:0], first)
	at = len(text)
	text = a.masked(text, last)
	a.contents.put(key, storedAt{a.now.UnixNano(), at})
	if a.emit {
		a.metrics.contents.Inc()
		a.out.Contents = append(a.out.Contents, Content{ID: id, Kind: kind, SeenAt: a.now, Bytes: n, Body: string(text)})
	}
	if cap(text) <= maxMasked {
		a.contents.masked = text
	}
	return key, id, at
}

// masked appends body to dst as it is stored.
func (a *Analyzer) masked(dst, body []byte) []byte {
	if a.redact == nil || len(body) == 0 {
		return append(dst, body...)
	}
	return a.redact(dst, body)
}

// A lastContent is what a conversation sent last of what each of its requests repeats. What has the same xxh3 and length is
// neither hashed with SHA-256 nor named again; what another conversation sent cannot stand for it.
type lastContent struct {
	hash        uint64
	first, last int // bytes
	key         contentID
	id          string
}

// same is split of what conversations share, and of which c is the last.
func (a *Analyzer) same(c *lastContent, kind string, first, last []byte) (id string, at int) {
	sum := xxh3.Hash(first)
	if len(last) > 0 {
		sum = bits.RotateLeft64(sum, 1) ^ xxh3.Hash(last)
	}
	if c.id != "" && c.hash == sum && c.first == len(first) && c.last == len(last) {
		if known, ok := a.contents.find(c.key, a.now); ok {
			return c.id, known.split
		}
	}
	*c = lastContent{hash: sum, first: len(first), last: len(last)}
	c.key, c.id, at = a.split(placeShared, kind, first, last)
	return c.id, at
}

// lead stores the leading system messages of body, which are at cut, and returns their ids. Nobody writes to them.
func (a *Analyzer) lead(h *histories, body []byte, cut []facts.Message) []string {
	if len(h.lead) != min(len(cut), maxSame) {
		h.lead, h.leadIDs = make([]lastContent, min(len(cut), maxSame)), nil
	}
	changed := len(h.leadIDs) != len(h.lead)
	for i := range h.lead {
		id, _ := a.same(&h.lead[i], ContentMessage, body[cut[i].Start:cut[i].End], nil)
		changed = changed || id != h.leadIDs[i]
	}
	if changed {
		h.leadIDs = make([]string, len(h.lead))
		for i := range h.lead {
			h.leadIDs[i] = h.lead[i].id
		}
	}
	ids := slices.Clip(h.leadIDs)
	for i := len(h.lead); i < len(cut); i++ {
		ids = append(ids, a.content(placeShared, ContentMessage, body[cut[i].Start:cut[i].End]))
	}
	return ids
}
