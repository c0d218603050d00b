package ledger

import (
	"slices"
	"time"
)

// A target tolerates a violation once it accepted minTolerated exchanges of minTalks conversations with it.
const (
	minTolerated = 20
	minTalks     = 3
)

// A Tolerance is the proof that a model at a host accepts requests with a violation. Provider rules change and models
// differ, so that repeated acceptance outweighs what the rule predicts for the target.
//
// Since and Until are the bounds of the newest period in which the violation was tolerated, so that an exchange that is
// read again is judged as before. Earlier periods are forgotten: an exchange of one that is read again after a newer
// one began is judged as if it was not tolerated.
type Tolerance struct {
	Count   uint64    `json:"count"`             // accepted exchanges since the newest refusal, up to Since
	Talks   []uint32  `json:"talks,omitempty"`   // hashes of the first conversations of these exchanges
	Proof   uint64    `json:"proof,omitempty"`   // Count at Since
	Since   Position  `json:"since,omitzero"`    // the acceptance that completed the proof; zero if none did
	SinceAt time.Time `json:"since_at,omitzero"` // stream time of Since
	Until   Position  `json:"until,omitzero"`    // the refusal that ended the newest period; zero or before Since if it lasts
}

// At reports whether the violation was tolerated when the exchange at p completed.
func (t *Tolerance) At(p Position) bool {
	return t.Since != Position{} && t.Since.Compare(p) < 0 && (t.proven() || p.Compare(t.Until) <= 0)
}

// proven reports whether the violation is tolerated now.
func (t *Tolerance) proven() bool { return t.Since.Compare(t.Until) > 0 }

// accept adds an accepted exchange of a conversation.
func (t *Tolerance) accept(s *Sighting, conversation string) {
	if t.proven() {
		return
	}
	t.Count++
	if talk := hash32(conversation, 0); len(t.Talks) < minTalks && !slices.Contains(t.Talks, talk) {
		t.Talks = append(t.Talks, talk)
	}
	if t.Count >= minTolerated && len(t.Talks) >= minTalks {
		t.Since, t.SinceAt, t.Proof = s.Position, s.At, t.Count
	}
}

// Refuse records that an exchange failed because of the violation: the proof starts again.
func (t *Tolerance) Refuse(s *Sighting) {
	if t.proven() {
		t.Until = s.Position
	}
	t.Count, t.Talks = 0, nil
}

// clearPositions keeps the count, so that the next acceptance completes the proof again.
func (t *Tolerance) clearPositions() {
	t.Since, t.Until, t.SinceAt = Position{}, Position{}, time.Time{}
}
