package release

import (
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// Step is what a release needs.
type Step string

// The values of Step.
const (
	// Keep writes nothing: the release is as it should be.
	Keep Step = "keep"
	// Install makes the first revision.
	Install Step = "install"
	// Upgrade makes another revision over the last.
	Upgrade Step = "upgrade"
	// Recover marks the last revision, which was never finished, as failed and
	// upgrades over it; of one that cannot be read it deletes the Secret first.
	// Uninstalling, the usual cure, would delete every node.
	Recover Step = "recover"
	// Adopt makes another revision over a release that plumbline has not installed.
	Adopt Step = "adopt"
	// Repair makes another revision of the same: the release is as it should be,
	// and an object of it was deleted or changed.
	Repair Step = "repair"
)

// patience is how long another Helm client may take to finish a revision.
const patience = 10 * time.Minute

// nextStep says what a release needs to be made from what it should be. adopt adopts one that
// plumbline has not installed. Errors: *survey.ForeignReleaseError,
// *BusyError.
func nextStep(r Release, want Mark, adopt bool, now time.Time) (Step, error) {
	ahead := r.Name == charts.CRDChart && charts.Ahead(r.version(), charts.FromLabel(want.Version))
	if r.Foreign {
		switch {
		case !adopt:
			return "", &survey.ForeignReleaseError{Release: r.Name, Revision: r.Revision}
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

// BusyError says that another Helm client is at work on a release.
type BusyError struct {
	Release  string
	Revision int
	// Until is when the revision counts as given up.
	Until time.Time
}

// Error names the revision that is waited for.
func (e *BusyError) Error() string {
	return fmt.Sprintf("revision %d of helm release %s was started by another Helm client and is not finished", e.Revision, e.Release)
}
