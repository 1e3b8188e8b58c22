package release

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// task is one release as it should be.
type task struct {
	charts.Chart

	namespace string
	// ignored are the fields that other controllers and users may change.
	ignored []survey.Ignore
	// paused are objects whose correction is paused: they stay as they are.
	paused []survey.Drift
	// correctPaused corrects even those.
	correctPaused bool
	// description is for the revision; empty for Helm's own words.
	description string
	// adopt takes ownership of what plumbline has not installed.
	adopt bool
	// sealed says that values are out of Secrets.
	sealed bool
	// dry says that nothing is to be written.
	dry bool
	// permit is asked about what the chart renders to; nil permits everything.
	permit func(Rendered) error
	// earlier says that the chart is that of an earlier revision, and comes from the
	// cluster.
	earlier bool
	// manifest is what the chart has rendered to.
	manifest string
}

// newTask is the release of a chart, by its name.
func newTask(name string, c *charts.Charts, want Request) (task, error) {
	one, err := c.Chart(name, want.Installation)
	return task{
		Chart: one, namespace: want.Namespace,
		adopt: want.Adopt, ignored: want.Ignored, correctPaused: want.CorrectPaused, permit: want.Permit,
		sealed: want.Sealed != "",
	}, err
}

func (t task) mark() (Mark, error) {
	values, err := t.Fingerprint()
	if err != nil {
		return Mark{}, err
	}
	_, digest, ok := strings.Cut(t.Digest, ":")
	if !ok || len(digest) < 32 {
		return Mark{}, fmt.Errorf("chart %s %s has no digest: only charts out of a Store can be installed", t.Name, t.Version)
	}
	return Mark{Version: charts.Label(t.Version), Digest: digest[:32], Values: values}, nil
}
