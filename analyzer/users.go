package analyzer

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/session"
)

// UserBuckets is the number of buckets into which users are hashed to count those that a problem hits. Two users may share a
// bucket, so no bucket tells who a user is.
const UserBuckets = 1 << 14

// maxUserBytes limits the estimated JSON bytes of the users of one tally. Further users are not counted in that second.
const maxUserBytes = 128 << 10

// A Hit names what hit users: the failures or findings of a stage with one root cause, else cause, else rule.
type Hit struct {
	Service     string `json:"service,omitempty"`
	Environment string `json:"environment,omitempty"`
	Stage       string `json:"stage,omitempty"`
	Problem     string `json:"problem"`
}

// UsersHit are the users that were hit in one second.
type UsersHit struct {
	Hit
	Buckets []uint16 `json:"buckets"` // below UserBuckets, sorted
}

// UserBucket returns the bucket of a user.
func UserBucket(user string) uint16 {
	sum := identity.Of(user)
	return binary.BigEndian.Uint16(sum[:]) % UserBuckets
}

// hit counts the user whose call or finding s counts. Calls without a user count for nobody.
func (c *counter) hit(s *series, user string) {
	if user == "" {
		return
	}
	h := Hit{s[labelService], s[labelEnvironment], s[labelStage], s[labelRootCause]}
	if h.Problem == "" || h.Problem == session.NoHistory {
		h.Problem = cmp.Or(s[labelCause], s[labelRule])
	}
	bucket, size := UserBucket(user), len("16383,")
	if _, known := c.users[h][bucket]; known {
		return
	}
	if c.users[h] == nil {
		size += 96 + jsonBytes(h.Service, h.Environment, h.Stage, h.Problem)
	}
	if c.userBytes+size > maxUserBytes {
		return
	}
	if c.users[h] == nil {
		c.users[h] = map[uint16]struct{}{}
	}
	c.users[h][bucket] = struct{}{}
	c.userBytes += size
}

// takeUsers returns the users of the second, sorted.
func (c *counter) takeUsers() (out []UsersHit) {
	for h, buckets := range c.users {
		out = append(out, UsersHit{h, slices.Sorted(maps.Keys(buckets))})
	}
	slices.SortFunc(out, func(a, b UsersHit) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Problem, b.Problem))
	})
	clear(c.users)
	c.userBytes = 0
	return out
}
