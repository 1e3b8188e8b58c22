package charts

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
)

// task is one release as it should be.
type task struct {
	name, namespace, version, digest string

	load   func() (*chart.Chart, error)
	values map[string]any
	// known is what values are recognised by: themselves, where no Secret has any.
	known any
	// ignored are the fields that are somebody else's.
	ignored []Ignore
	// fought are objects that are left as somebody has them.
	fought []Move
	// insist says that even those are put right.
	insist bool
	// description is for the revision; empty for Helm's own words.
	description string
	// crds says that the chart renders the CRDs.
	crds bool
	// adopt says that what somebody else made is to be taken over.
	adopt bool
	// dry says that nothing is to be written.
	dry bool
	// permit is asked about what the chart renders to; nil permits everything.
	permit func(Rendered) error
	// earlier says that it brings what a revision of the release was made from: that was
	// permitted before, and comes from the cluster.
	earlier bool
	// manifest is what the chart has rendered to.
	manifest string
}

func crdTask(c *Charts, into Installation) task {
	return task{
		name: CRDChart, namespace: into.Namespace,
		version: c.Version, digest: c.CRDDigest,
		load: c.loadCRD, values: crdValues(), known: crdValues(),
		crds: true, adopt: into.Adopt,
		ignored: into.Ignored, insist: into.Insist, permit: into.Permit,
	}
}

func controllerTask(c *Charts, into Installation) (task, error) {
	values, err := into.values()
	if err != nil {
		return task{}, err
	}
	known, err := into.known(values)
	return task{
		name: ControllerChart, namespace: into.Namespace,
		version: c.Version, digest: c.Digest,
		load: c.loadController, values: values, known: known,
		adopt: into.Adopt, ignored: into.Ignored, insist: into.Insist, permit: into.Permit,
	}, err
}

func (t task) mark() (Mark, error) {
	values, err := fingerprint(t.known)
	if err != nil {
		return Mark{}, err
	}
	_, digest, ok := strings.Cut(t.digest, ":")
	if !ok || len(digest) < 32 {
		return Mark{}, fmt.Errorf("chart %s %s has no digest: only charts out of a Store can be installed", t.name, t.version)
	}
	return Mark{Version: label(t.version), Digest: digest[:32], Values: values}, nil
}
