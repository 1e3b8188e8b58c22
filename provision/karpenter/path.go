package karpenter

import (
	"fmt"

	"github.com/Masterminds/semver/v3"
)

// Hop is one upgrade, or downgrade, that can be done at once, and what it needs.
type Hop struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Kubernetes is what To knows.
	Kubernetes Kubernetes `json:"kubernetes"`
	// Before is what has to be true before the hop.
	Before []string `json:"before,omitempty"`
	// Permissions are what To's controller asks of IAM, and From's did not.
	Permissions []Permission `json:"permissions,omitempty"`
	// Settings are the values and environment variables that From's chart knows
	// and To's does not.
	Settings []Setting `json:"settings,omitempty"`
	// Hashes are the hash versions that change.
	Hashes []HashChange `json:"hashes,omitempty"`
	// Notes are what changes by itself.
	Notes []string `json:"notes,omitempty"`
}

// leastManaged is the first version that plumbline installs.
const leastManaged = "1.0.0"

// DowngradeError says that a version lies before those that plumbline manages.
type DowngradeError struct {
	From, To string
}

// Error says where the way back ends.
func (e *DowngradeError) Error() string {
	return fmt.Sprintf("karpenter %s cannot be taken back to %s: plumbline manages karpenter %s and later", e.From, e.To, leastManaged)
}

// SkippedHopError says that an upgrade skips a version that it has to stop at.
type SkippedHopError struct {
	From, To string
	// Next is where the way stops first.
	Next string
}

// Error names the next stop.
func (e *SkippedHopError) Error() string {
	return fmt.Sprintf("karpenter %s cannot be upgraded to %s at once: set version %s in plumbline.yaml first; plumbline upgrade --to %s prints the way",
		e.From, e.To, e.Next, e.To)
}

// CheckHop says whether one version may follow another at once. Errors:
// *VersionError, *DowngradeError, *SkippedHopError.
func CheckHop(from, to string) error {
	path, err := Path(from, to)
	if err != nil || len(path) < 2 {
		return err
	}
	return &SkippedHopError{From: from, To: to, Next: path[0].To}
}

// Path returns the hops from one version to another, none where they are equal.
// A downgrade is one hop. Errors: *VersionError, *DowngradeError.
func Path(from, to string) ([]Hop, error) {
	a, b, err := parsePair(from, to)
	if err != nil {
		return nil, err
	}
	if b.LessThan(a) {
		if b.LessThan(semver.MustParse(leastManaged)) {
			return nil, &DowngradeError{From: from, To: to}
		}
		return []Hop{newDowngrade(a, b)}, nil
	}
	var path []Hop
	for _, stop := range stops(a, b) {
		path = append(path, newHop(a, stop))
		a = stop
	}
	return path, nil
}

// stops are the versions to stop at, the last one included.
func stops(from, to *semver.Version) []*semver.Version {
	var found []*semver.Version
	last := lineOf(to)
	for i := lineOf(from); i < last; i++ {
		if from.LessThan(semver.MustParse(lines[i].leave)) {
			from = semver.MustParse(lines[i].stop)
			found = append(found, from)
		}
		if i+1 < last {
			from = semver.MustParse(lines[i+1].stop)
			found = append(found, from)
		}
	}
	if from.LessThan(to) {
		found = append(found, to)
	}
	return found
}

// newHop fills in what an upgrade needs.
func newHop(from, to *semver.Version) Hop {
	hop := Hop{From: from.String(), To: to.String()}
	if known(to) {
		hop.Kubernetes, _ = at(kubernetes, to)
	} else {
		hop.Notes = append(hop.Notes, fmt.Sprintf("newer than %s, the newest that this plumbline knows: read its upgrade guide for what else it needs", newest))
	}
	for i := lineOf(from) + 1; i <= lineOf(to); i++ {
		hop.Before = append(hop.Before, lines[i].before...)
	}
	for _, r := range between(permissions, from, to) {
		hop.Permissions = append(hop.Permissions, r.is)
	}
	hop.Settings = settingsGone(from, to)
	hop.Hashes = hashChanges(from, to)
	for _, r := range between(changes, from, to) {
		hop.Notes = append(hop.Notes, fmt.Sprintf("since %s %s", r.since, r.is))
	}
	return hop
}

// newDowngrade fills in what a downgrade needs: what came in on the way up goes.
func newDowngrade(from, to *semver.Version) Hop {
	hop := Hop{From: from.String(), To: to.String(), Before: []string{
		"no CRD loses a version that status.storedVersions lists, and every object passes the older schema: both are checked before anything moves",
		"values and fields that are newer than " + to.String() + " are out of the repository",
	}}
	hop.Kubernetes, _ = at(kubernetes, to)
	hop.Hashes = hashChanges(from, to)
	return hop
}
