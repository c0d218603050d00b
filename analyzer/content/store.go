package content

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math/bits"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
)

// Kinds of contents.
const (
	KindMessage    = "message"
	KindParameters = "parameters"
	KindAnswer     = "answer"
)

const (
	maxContent  = 8 << 20 // bytes of one content; larger contents are dropped
	maxKnown    = 1 << 17 // ids of stored contents in each of two generations
	maxShared   = 1 << 12 // ids of shared contents as text
	maxRedacted = 1 << 20 // bytes of the redaction buffer that is retained

	// storedFor is how long a content is not stored again. Storing it again renews its time to live.
	storedFor = 12 * time.Hour
)

// An Output receives new contents and positions. It must copy any bytes that it retains.
type Output interface {
	Content(id, kind string, captured int, body []byte) // captured is the size before redaction
	Position(Position)
	Dropped() // reports a content that is too large
}

// A Store stores contents and tracks which ones are stored. It is not safe for concurrent use.
type Store struct {
	sessions *session.Store
	enabled  func(service string) bool // nil for no service
	redact   func(dst []byte, kind string, body []byte) []byte
	shaped   func(service string) bool // nil for no service
	shape    func(dialect string, answer bool, body []byte) []byte

	epoch      uint32                 // number of calls of Forget
	known, old map[contentID]written  // two generations of stored contents
	shared     map[contentID][]string // ids of shared contents as text, one each; immutable, so that conversations and rows share them
	sum        hash.Hash              // reused SHA-256 state
	digest     [sha256.Size]byte      // buffer for one SHA-256
	redacted   []byte                 // buffer for a redacted content
	facts      facts.Request          // facts of the shape of a request

	now      time.Time
	output   Output // nil during a silent replay
	withhold bool   // only ids are computed
	size     int64  // see TakeSize
}

// New returns a disabled store that attaches the histories of conversations to sessions.
func New(sessions *session.Store) *Store { return &Store{sessions: sessions} }

// Enable makes s store the bodies of the services for which enabled returns true. redact appends the redacted body of a content,
// or a piece of it, to dst; a nil redact leaves bodies unchanged.
func (s *Store) Enable(enabled func(service string) bool, redact func(dst []byte, kind string, body []byte) []byte) {
	s.enabled, s.redact = enabled, redact
}

// Shape makes s store the shapes of fully captured bodies of the services for which shaped returns true. shape may
// reuse the memory of its result.
func (s *Store) Shape(shaped func(service string) bool, shape func(dialect string, answer bool, body []byte) []byte) {
	s.shaped, s.shape = shaped, shape
}

// Forget clears the record of stored contents, because some of them are deleted: everything is stored again, and each
// conversation begins a new branch.
func (s *Store) Forget() {
	s.known, s.old = nil, nil
	s.epoch++
}

// Begin sets the stream time and the output for the requests and answers that follow. The output is nil in a silent
// replay.
func (s *Store) Begin(now time.Time, o Output) { s.now, s.output = now, o }

// TakeSize returns the size of the contents that were new since the last call, in bytes as captured. It is the same in a replay.
func (s *Store) TakeSize() int64 {
	n := s.size
	s.size = 0
	return n
}

// written is the record of a stored content. It contains no pointers, so that garbage collection skips the entries,
// which may number a quarter of a million.
type written struct {
	seconds uint32 // stream time since 1970; 0 if it was only withheld
	split   uint32 // offset of the second piece, after redaction
}

// A Time is the first timeBytes bytes of the id of a content: milliseconds since 1970.
type Time uint64

const (
	timeBytes = 6
	maxTime   = 1<<(8*timeBytes) - 1
)

// shared is the Time of contents that conversations share.
const shared Time = 0

// timeOf returns the Time of a conversation. It uses the agent's clock, not stream time, so that traffic that is
// imported twice gets the same ids.
func timeOf(started time.Time) Time {
	return Time(min(max(started.UnixMilli(), int64(shared)+1), maxTime))
}

type contentID [20]byte

func (id *contentID) String() string {
	var buf [2 * len(id)]byte
	hex.Encode(buf[:], id[:])
	return string(buf[:])
}

// idOf returns the id of a content that consists of two pieces; last may be empty.
func (s *Store) idOf(t Time, first, last []byte) (id contentID) {
	binary.BigEndian.PutUint64(id[:8], uint64(t)<<(64-8*timeBytes))
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
	copy(id[timeBytes:], s.digest[:])
	return id
}

// sharedID returns the text of the id of a shared content, as the only element.
func (s *Store) sharedID(key contentID) []string {
	id := s.shared[key]
	if id == nil {
		if s.shared == nil || len(s.shared) >= maxShared {
			s.shared = make(map[contentID][]string)
		}
		id = []string{key.String()}
		s.shared[key] = id
	}
	return id
}

// find returns the record of id, or false if it has not been stored within storedFor.
func (s *Store) find(id contentID) (written, bool) {
	w, ok := s.known[id]
	if !ok {
		if w, ok = s.old[id]; ok {
			s.remember(id, w)
		}
	}
	return w, ok && s.now.Unix()-int64(w.seconds) < int64(storedFor/time.Second)
}

func (s *Store) remember(id contentID, w written) {
	if s.known == nil || len(s.known) >= maxKnown {
		s.old, s.known = s.known, make(map[contentID]written)
	}
	s.known[id] = w
}

// put stores a content and returns its id; "" if it is too large.
func (s *Store) put(t Time, kind string, body []byte) string {
	_, id, _ := s.putSplit(t, kind, body, nil)
	return id
}

// putSplit is like put, but for a content in two pieces. split is the offset of the second piece in the stored
// content.
func (s *Store) putSplit(t Time, kind string, first, last []byte) (key contentID, id string, split int) {
	n := len(first) + len(last)
	if n > maxContent {
		if s.output != nil && !s.withhold {
			s.output.Dropped()
		}
		return key, "", 0
	}
	key = s.idOf(t, first, last)
	if t == shared {
		id = s.sharedID(key)[0]
	} else {
		id = key.String()
	}
	// A replay may begin inside a conversation, which then has a different Time, so it is unknown whether its contents
	// are stored.
	if (s.output == nil || s.withhold) && t != shared {
		return key, id, len(first)
	}
	w, ok := s.find(key)
	if ok || s.withhold && w != (written{}) {
		return key, id, int(w.split)
	}
	text := s.appendRedacted(s.redacted[:0], kind, first)
	split = len(text)
	if s.withhold {
		s.remember(key, written{split: uint32(split)})
		return key, id, split
	}
	if t == shared {
		s.size += int64(n)
	}
	text = s.appendRedacted(text, kind, last)
	s.remember(key, written{uint32(s.now.Unix()), uint32(split)})
	if s.output != nil {
		s.output.Content(id, kind, n, text)
	}
	if cap(text) <= maxRedacted {
		s.redacted = text
	}
	return key, id, split
}

func (s *Store) appendRedacted(dst []byte, kind string, body []byte) []byte {
	if s.redact == nil || len(body) == 0 {
		return append(dst, body...)
	}
	return s.redact(dst, kind, body)
}

// A repeated content is the newest version of a content that each request of a conversation repeats. Bytes with the
// same xxh3 and length are not hashed with SHA-256 again, and no new id is computed. Other conversations cannot supply
// these bytes.
type repeated struct {
	hash        uint64
	first, last int // sizes of the two pieces, in bytes
	split       int // offset of the second piece in the stored content
	key         contentID
	id          string
}

// putRepeated is like putSplit, but for a shared content with r, its previous version. It updates r.
func (s *Store) putRepeated(r *repeated, kind string, first, last []byte) (string, int) {
	sum := xxh3.Hash(first)
	if len(last) > 0 {
		sum = bits.RotateLeft64(sum, 1) ^ xxh3.Hash(last)
	}
	if r.id != "" && r.hash == sum && r.first == len(first) && r.last == len(last) {
		if s.withhold {
			return r.id, r.split
		}
		if w, ok := s.find(r.key); ok {
			return r.id, int(w.split)
		}
	}
	*r = repeated{hash: sum, first: len(first), last: len(last)}
	r.key, r.id, r.split = s.putSplit(shared, kind, first, last)
	return r.id, r.split
}
