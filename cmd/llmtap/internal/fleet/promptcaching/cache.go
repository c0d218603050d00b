package promptcaching

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// Options are the options of a Cache; the zero value is a cache that evicts nothing before its time.
type Options struct {
	Now   func() time.Time        // default: time.Now
	Seed  uint64                  // of what happens at random
	Owner func(key string) string // the account of a key; default: each key has its own
	Evict float64                 // share of the requests before which the provider loses some of what it could read
}

// A Cache is what a provider holds of the prompts of its customers.
type Cache struct {
	now   func() time.Time
	owner func(key string) string
	evict float64

	mu     sync.Mutex // guards the fields below
	rng    *rand.Rand
	held   map[key]*entry
	recent map[key][]time.Time // requests of the last minute, by where they are routed
	named  map[string]*content // Gemini's cachedContents
}

// New returns an empty cache.
func New(o Options) *Cache {
	c := &Cache{
		now: o.Now, owner: o.Owner, evict: o.Evict, rng: rand.New(rand.NewPCG(o.Seed, 42)),
		held: map[key]*entry{}, recent: map[key][]time.Time{}, named: map[string]*content{},
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.owner == nil {
		c.owner = func(key string) string { return key }
	}
	return c
}

// A Request is a call to a provider.
type Request struct {
	Key   string // of an account
	Model string
	Body  []byte
}

// Usage counts the tokens of a prompt.
type Usage struct {
	Prompt  int // all
	Read    int // from the cache
	Written int // to the cache, where the provider reports it
	Hour    int // of these, for an hour
}

// A Call is a request whose answer has not begun.
type Call struct {
	Usage

	cache  *Cache
	writes []write
	output func(message any) // what the answer adds
}

// Answered makes what the call has written readable. The message is the one of the answer, as the next request contains it.
func (call *Call) Answered(message any) {
	call.cache.mu.Lock()
	defer call.cache.mu.Unlock()
	for _, w := range call.writes {
		call.cache.put(w.key, w.ttl)
	}
	if call.output != nil {
		call.output(message)
	}
}

// A key is a prefix of a prompt, with all that it belongs to.
type key uint64

var hashSeed = maphash.MakeSeed()

// with returns the key of a longer prefix.
func (k key) with(s string) key {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	var b [8]byte
	for i := range b {
		b[i] = byte(k >> (8 * i))
	}
	_, _ = h.Write(b[:])
	_, _ = h.WriteString(s)
	return key(h.Sum64())
}

type entry struct {
	ttl     time.Duration
	expires time.Time
}

type write struct {
	key key
	ttl time.Duration
}

// put holds a prefix for ttl, or longer if it is held for longer already.
func (c *Cache) put(k key, ttl time.Duration) {
	e := c.held[k]
	if e == nil {
		e = &entry{}
		c.held[k] = e
	}
	e.ttl = max(e.ttl, ttl)
	if at := c.now().Add(ttl); at.After(e.expires) {
		e.expires = at
	}
}

// holds reports whether a prefix can be read.
func (c *Cache) holds(k key) bool {
	e := c.held[k]
	return e != nil && c.now().Before(e.expires)
}

// renew lets a prefix that was read live as long as a new one.
func (c *Cache) renew(k key) {
	if e := c.held[k]; e != nil {
		e.expires = c.now().Add(e.ttl)
	}
}

// lose forgets some of the longest of these prefixes, which are in the order of their lengths, in the share of cases to evict.
func (c *Cache) lose(prefixes []key) {
	if len(prefixes) == 0 || c.evict == 0 || c.rng.Float64() >= c.evict {
		return
	}
	for _, k := range prefixes[c.rng.IntN(len(prefixes)):] {
		delete(c.held, k)
	}
}

// fewMinutes returns a time between 5 and 10 minutes.
func (c *Cache) fewMinutes() time.Duration {
	return 5*time.Minute + time.Duration(c.rng.Int64N(int64(5*time.Minute)))
}

// String returns the key in a form to be part of another.
func (k key) String() string { return strconv.FormatUint(uint64(k), 36) }
