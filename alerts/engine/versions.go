package engine

import (
	"cmp"
	"slices"
	"time"
)

// maxVersions bounds the service versions whose first call is remembered.
const maxVersions = 1000

// versions remembers the first counted call of each service version. Engine.mu guards it.
type versions struct {
	first map[[2]string]int64 // Unix second, by service and version
}

// A savedVersion is the stored form of one entry.
type savedVersion struct {
	Service string `json:"service"`
	Version string `json:"version"`
	First   int64  `json:"first"`
}

func newVersions() *versions { return &versions{first: map[[2]string]int64{}} }

func (v *versions) observe(tallies []tally) {
	for _, t := range tallies {
		for _, c := range t.Counts {
			k := [2]string{c.Labels["service"], c.Labels["service_version"]}
			if first, ok := v.first[k]; ok && first <= t.Second || !ok && len(v.first) >= maxVersions {
				continue
			}
			v.first[k] = t.Second
		}
	}
}

// firstSeen returns the time of the first call of a version, or the zero time if the version is unknown.
func (v *versions) firstSeen(service, version string) time.Time {
	s, ok := v.first[[2]string{service, version}]
	if !ok {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

// since returns which services have a version whose first call is not before from.
func (v *versions) since(from int64) func(service string) bool {
	services := map[string]bool{}
	for k, first := range v.first {
		if first >= from {
			services[k[0]] = true
		}
	}
	return func(service string) bool { return services[service] }
}

// save returns the entries, sorted by service and version.
func (v *versions) save() []savedVersion {
	var out []savedVersion
	for k, first := range v.first {
		out = append(out, savedVersion{k[0], k[1], first})
	}
	slices.SortFunc(out, func(a, b savedVersion) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Version, b.Version))
	})
	return out
}

func (v *versions) restore(saved []savedVersion) {
	for _, s := range saved {
		v.first[[2]string{s.Service, s.Version}] = s.First
	}
}
