package alerts

import (
	"math"
	"math/bits"

	"github.com/llmtap/llmtap/analyzer"
)

// Users are the users that a problem has hit: one bit for each bucket, so 2 KiB for any number of users. Count is an estimate, because
// users share buckets: within 1 of 100 users, and 1% of 10,000. It is at most about 150,000, when all buckets are full.
type Users []byte

// Add adds the user of a bucket and reports whether the bucket was empty.
func (u *Users) Add(bucket uint16) bool {
	if *u == nil {
		*u = make(Users, analyzer.UserBuckets/8)
	}
	i, bit := int(bucket/8), byte(1)<<(bucket%8)
	if i >= len(*u) || (*u)[i]&bit != 0 {
		return false
	}
	(*u)[i] |= bit
	return true
}

// Merge adds the users of o and reports whether a bucket of them was empty.
func (u *Users) Merge(o Users) (changed bool) {
	for bucket := range uint16(min(8*len(o), analyzer.UserBuckets)) {
		if o[bucket/8]&(1<<(bucket%8)) != 0 && u.Add(bucket) {
			changed = true
		}
	}
	return changed
}

// Count returns the number of users.
func (u Users) Count() int {
	used := 0
	for _, b := range u {
		used += bits.OnesCount8(b)
	}
	empty := max(analyzer.UserBuckets-used, 1)
	return int(math.Round(analyzer.UserBuckets * math.Log(analyzer.UserBuckets/float64(empty))))
}
