package content

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/price"
)

// A Sampling says of which calls of a service the texts are stored. Those of failed calls and of calls with findings, and what
// follows in their conversations, are stored whatever the share.
type Sampling struct {
	Service string  `yaml:"service"`                     // name; * matches any text
	Share   float64 `yaml:"share"`                       // of the conversations, each of which is stored as a whole
	PerHour int64   `yaml:"texts_per_hour" unit:"bytes"` // maximum of a partition before compression, twice as much with failed calls and findings; 0: no limit
}

// SetDefaults makes s store everything.
func (s *Sampling) SetDefaults() { s.Share = 1 }

// Validate returns all errors, joined.
func (s *Sampling) Validate() error {
	var errs []error
	if s.Service == "" {
		errs = append(errs, errors.New("service: is empty; * matches any service"))
	}
	if !(s.Share >= 0 && s.Share <= 1) { // also rejects NaN
		errs = append(errs, fmt.Errorf("share: %v is not between 0 and 1", s.Share))
	}
	if s.PerHour < 0 {
		errs = append(errs, fmt.Errorf("texts_per_hour: %d is negative", s.PerHour))
	}
	return errors.Join(errs...)
}

// A Drop is the reason why the texts of a call are not stored.
type Drop uint8

// Reasons of Drop. The zero value is that of a call whose texts are stored, or that has none.
const (
	Sampled Drop = 1 + iota // by Sampling.Share
	Quota                   // by Sampling.PerHour
)

func (d Drop) String() string {
	if d == 0 {
		return ""
	}
	if d == Sampled {
		return "sampled"
	}
	return "quota"
}

// maxServices bounds the services that a Sampler remembers.
const maxServices = 4096

// A Sampler decides which texts are stored. It is a function of the calls and of stream time. It is not safe for concurrent use.
type Sampler struct {
	table  []Sampling
	known  map[string]*sampled
	hour   int64
	minSeq uint64 // oldest sequence on which the sizes of this hour depend; 0 if none
}

// sampled is the first Sampling that matches a service.
type sampled struct {
	*Sampling       // nil if none does
	size      int64 // bytes stored in this hour, if they are limited
}

// NewSampler returns a Sampler of a valid table, of which the first Sampling that matches a service applies; nil if the table is
// empty.
func NewSampler(table []Sampling) *Sampler {
	if len(table) == 0 {
		return nil
	}
	return &Sampler{table: table, known: map[string]*sampled{}}
}

// of returns what is known of a service.
func (x *Sampler) of(service string) *sampled {
	p := x.known[service]
	if p == nil {
		if len(x.known) >= maxServices {
			clear(x.known)
		}
		p = new(sampled)
		if i := slices.IndexFunc(x.table, func(s Sampling) bool { return price.Matches(s.Service, service) }); i >= 0 {
			p.Sampling = &x.table[i]
		}
		x.known[strings.Clone(service)] = p
	}
	return p
}

// Share returns the share of the conversations of a service whose texts are stored.
func (x *Sampler) Share(service string) float64 {
	if p := x.of(service); p.Sampling != nil {
		return p.Share
	}
	return 1
}

// Drops returns why the texts of a call are not stored, or 0. always reports that they are stored whatever the share.
func (x *Sampler) Drops(service, conversation string, always bool, now time.Time) Drop {
	if x == nil {
		return 0
	}
	p := x.of(service)
	if p.Sampling == nil {
		return 0
	}
	x.newHour(now)
	const bits = 53 // of a float64
	most := p.PerHour
	if always {
		most *= 2
	} else if p.Share < 1 && float64(xxh3.HashStringSeed(conversation, xxh3.HashString(service))>>(64-bits)) >= p.Share*(1<<bits) {
		return Sampled
	}
	if p.PerHour > 0 && p.size >= most {
		return Quota
	}
	return 0
}

// Stored counts size bytes of texts of a service that are stored. They depend on the events from minSeq.
func (x *Sampler) Stored(service string, size int64, minSeq uint64, now time.Time) {
	if x == nil || size == 0 {
		return
	}
	p := x.of(service)
	if p.Sampling == nil || p.PerHour == 0 {
		return
	}
	x.newHour(now)
	p.size += size
	if x.minSeq == 0 || minSeq < x.minSeq {
		x.minSeq = minSeq
	}
}

// newHour forgets the sizes of the hour before.
func (x *Sampler) newHour(now time.Time) {
	if h := now.Unix() / 3600; h != x.hour {
		x.hour, x.minSeq = h, 0
		for _, p := range x.known {
			p.size = 0
		}
	}
}

// MinSeq returns the oldest sequence on which decisions at now depend, or 0.
func (x *Sampler) MinSeq(now time.Time) uint64 {
	if x == nil {
		return 0
	}
	x.newHour(now)
	return x.minSeq
}
