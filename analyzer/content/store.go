package content

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"math/bits"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
)

// Kinds of a content.
const (
	KindMessage    = "message"
	KindParameters = "parameters"
	KindAnswer     = "answer"
)

const (
	maxContent  = 8 << 20 // bytes of one content; a larger one is dropped
	maxKnown    = 1 << 17 // ids of stored contents, in each of two generations
	maxRedacted = 1 << 20 // bytes of the buffer that redaction keeps

	// storedFor is how long a content is not stored again: storing it again renews its time to live.
	storedFor = 12 * time.Hour
)

// An Output takes new contents and positions. It must copy bytes that it keeps.
type Output interface {
	Content(id, kind string, captured int, body []byte) // captured is the size before redaction
	Position(Position)
	Dropped() // a content that is too large
}

// A Store remembers what was stored. It is not safe for concurrent use.
type Store struct {
	sessions *session.Store
	enabled  func(service string) bool // nil: for none
	redact   func(dst, body []byte) []byte
	shaped   func(service string) bool // nil: for none
	shape    func(dialect string, answer bool, body []byte) []byte

	epoch      uint32                // counts the calls of Forget
	known, old map[contentID]written // two generations
	sum        hash.Hash             // SHA-256
	digest     [sha256.Size]byte     // room for one
	redacted   []byte                // room for a redacted content
	facts      facts.Request         // of the shape of a request

	now    time.Time
	output Output // nil in a silent replay
}

// New returns a store that stores nothing and keeps the histories of conversations in sessions.
func New(sessions *session.Store) *Store { return &Store{sessions: sessions} }

// Enable stores the bodies of the services for which enabled returns true, each content as redact appends it to dst; nil
// changes nothing.
func (s *Store) Enable(enabled func(service string) bool, redact func(dst, body []byte) []byte) {
	s.enabled, s.redact = enabled, redact
}

// Shape stores fully captured bodies of the services for which shaped returns true as their shapes: as shape returns
// them, which may reuse its memory.
func (s *Store) Shape(shaped func(service string) bool, shape func(dialect string, answer bool, body []byte) []byte) {
	s.shaped, s.shape = shaped, shape
}

// Forget forgets what was stored, because some of it is deleted: from now on everything is stored again, each conversation
// on a new branch.
func (s *Store) Forget() {
	s.known, s.old = nil, nil
	s.epoch++
}

// Begin sets the stream time and the output of the requests and answers that follow; nil in a silent replay.
func (s *Store) Begin(now time.Time, o Output) { s.now, s.output = now, o }

// written contains no pointer, so that garbage collection skips what may be a quarter of a million entries.
type written struct {
	nanos int64 // stream time since 1970
	split int   // where the second of its two pieces begins, after redaction
}

// A Time is the first four bytes of the id of a content.
type Time uint32

// shared is the Time of what conversations share.
const shared Time = 0

// timeOf uses the clock of the agent, not of the stream: traffic that is imported twice gets the same ids.
func timeOf(started time.Time) Time {
	return Time(min(max(started.Unix(), int64(shared)+1), math.MaxUint32))
}

type contentID [20]byte

func (id *contentID) String() string {
	var buf [2 * len(id)]byte
	hex.Encode(buf[:], id[:])
	return string(buf[:])
}

// idOf returns the id of a content in two pieces, the second of which may be empty.
func (s *Store) idOf(t Time, first, last []byte) (id contentID) {
	binary.BigEndian.PutUint32(id[:4], uint32(t))
	if len(last) == 0 {
		s.digest = sha256.Sum256(first)
	} else {
		if s.sum == nil {
			s.sum = sha256.New()
		}
		s.sum.Reset()
		s.sum.Write(first)
		s.sum.Write(last)
		s.sum.Sum(s.digest[:0])
	}
	copy(id[4:], s.digest[:])
	return id
}

// find returns when id was stored, unless that is too long ago.
func (s *Store) find(id contentID) (written, bool) {
	w, ok := s.known[id]
	if !ok {
		if w, ok = s.old[id]; ok {
			s.remember(id, w)
		}
	}
	return w, ok && s.now.UnixNano()-w.nanos < int64(storedFor)
}

func (s *Store) remember(id contentID, w written) {
	if s.known == nil || len(s.known) >= maxKnown {
		s.old, s.known = s.known, make(map[contentID]written)
	}
	s.known[id] = w
}

// put stores a content and returns its id; "" when it is too large.
func (s *Store) put(t Time, kind string, body []byte) string {
	_, id, _ := s.putSplit(t, kind, body, nil)
	return id
}

// putSplit is put for a content in two pieces. split is where the second one begins in what is stored.
func (s *Store) putSplit(t Time, kind string, first, last []byte) (key contentID, id string, split int) {
	n := len(first) + len(last)
	if n > maxContent {
		if s.output != nil {
			s.output.Dropped()
		}
		return key, "", 0
	}
	key = s.idOf(t, first, last)
	id = key.String()
	// A replay may begin inside a conversation, which then has another time than before, so its contents are not known to
	// be stored.
	if s.output == nil && t != shared {
		return key, id, len(first)
	}
	if w, ok := s.find(key); ok {
		return key, id, w.split
	}
	text := s.appendRedacted(s.redacted[:0], first)
	split = len(text)
	text = s.appendRedacted(text, last)
	s.remember(key, written{s.now.UnixNano(), split})
	if s.output != nil {
		s.output.Content(id, kind, n, text)
	}
	if cap(text) <= maxRedacted {
		s.redacted = text
	}
	return key, id, split
}

func (s *Store) appendRedacted(dst, body []byte) []byte {
	if s.redact == nil || len(body) == 0 {
		return append(dst, body...)
	}
	return s.redact(dst, body)
}

// A repeated content is one that each request of a conversation repeats, as its newest request sent it. Bytes with the same
// xxh3 and length are neither hashed with SHA-256 nor named again. Another conversation cannot supply them.
type repeated struct {
	hash        uint64
	first, last int // bytes
	key         contentID
	id          string
}

// putRepeated is putSplit for a content that conversations share and that r is the newest version of.
func (s *Store) putRepeated(r *repeated, kind string, first, last []byte) (id string, split int) {
	sum := xxh3.Hash(first)
	if len(last) > 0 {
		sum = bits.RotateLeft64(sum, 1) ^ xxh3.Hash(last)
	}
	if r.id != "" && r.hash == sum && r.first == len(first) && r.last == len(last) {
		if w, ok := s.find(r.key); ok {
			return r.id, w.split
		}
	}
	*r = repeated{hash: sum, first: len(first), last: len(last)}
	r.key, r.id, split = s.putSplit(shared, kind, first, last)
	return r.id, split
}
