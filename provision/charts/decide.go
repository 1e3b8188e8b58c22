package charts

import (
	"fmt"
	"time"

	"github.com/Masterminds/semver/v3"
)

// Step is what a release needs.
type Step string

// The values of Step.
const (
	// Keep: it is as it should be; nothing is written.
	Keep Step = "keep"
	// Install makes the first revision.
	Install Step = "install"
	// Upgrade makes another revision over the last.
	Upgrade Step = "upgrade"
	// Recover marks the last revision, which was never finished, as failed and
	// upgrades over it; of one that cannot be read it deletes the Secret first. Uninstalling, the usual cure, would take the fleet along.
	Recover Step = "recover"
	// Adopt makes another revision over a release of somebody else's.
	Adopt Step = "adopt"
	// Repair makes another revision of the same: the release is as it should be,
	// and an object of it was deleted or changed by somebody.
	Repair Step = "repair"
)

// patience is how long a revision that somebody else began is left to them.
const patience = 10 * time.Minute

// Decide says what brings a release to what it should be made from. adopt says
// that one of somebody else's is to be taken over. Errors: *ForeignReleaseError,
// *BusyError.
func Decide(r Release, want Mark, adopt bool, now time.Time) (Step, error) {
	ahead := r.Name == CRDChart && Ahead(r.version(), want.Version)
	if r.Foreign {
		switch {
		case !adopt:
			return "", &ForeignReleaseError{Release: r.Name, Revision: r.Revision}
		case ahead:
			return Keep, nil
		case r.Status != Pending:
			return Adopt, nil
		}
	}
	switch r.Status {
	case Absent:
		return Install, nil
	case Pending:
		if r.Edited && now.Sub(r.Since) < patience {
			return "", &BusyError{Release: r.Name, Revision: r.Revision, Until: r.Since.Add(patience)}
		}
		return Recover, nil
	case Failed:
		return Upgrade, nil
	case Deployed:
		if (r.Edited || r.Mark != want) && !ahead {
			return Upgrade, nil
		}
	}
	return Keep, nil
}

// Ahead says that CRDs are of a newer version than the one that is wanted. They
// stay when the controller goes back: an older schema would drop what the newer one
// has let in, and an older CRD could lose a stored version.
func Ahead(crds, wanted string) bool {
	has, err := semver.NewVersion(crds)
	if err != nil {
		return false
	}
	wants, err := semver.NewVersion(unlabel(wanted))
	return err == nil && has.GreaterThan(wants)
}

// ForeignReleaseError says that a release was not made by plumbline.
type ForeignReleaseError struct {
	Release  string
	Revision int
}

// Error says what can be done about it.
func (e *ForeignReleaseError) Error() string {
	return fmt.Sprintf("helm release %s (revision %d) was installed by somebody else and is not touched: %s", e.Release, e.Revision, waysOut)
}

// BusyError says that somebody else is running Helm on a release.
type BusyError struct {
	Release  string
	Revision int
	// Until is when the revision counts as given up.
	Until time.Time
}

// Error names the revision that is waited for.
func (e *BusyError) Error() string {
	return fmt.Sprintf("revision %d of helm release %s was begun by somebody else and is not finished", e.Revision, e.Release)
}
