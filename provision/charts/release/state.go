package release

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	helmrelease "helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// Status of a release.
type Status string

// The values of Status.
const (
	// Absent: Helm knows no such release.
	Absent Status = "absent"
	// Deployed: its last revision is in force.
	Deployed Status = "deployed"
	// Pending: a Helm client is at work on it, or was killed while it was.
	Pending Status = "pending"
	// Failed: its last revision did not succeed.
	Failed Status = "failed"
)

// State is what Helm knows of the two releases.
type State struct {
	CRDs, Controller Release
}

// Release is one of the two, at its last revision.
type Release struct {
	Name     string
	Status   Status
	Revision int
	// Readable is the newest revision that Helm can read, once that was asked.
	Readable int
	// Foreign says that plumbline has not installed it.
	Foreign bool
	// Mark says what our last revision was made from; of a foreign one at most its
	// version.
	Mark Mark
	// Edited says that the last revision is not ours: a user or a tool ran Helm.
	Edited bool
	// Since is when the last revision was begun.
	Since time.Time
}

// Intact says whether the last revision is in force and our own: the release was not
// uninstalled, and no other Helm client has changed it.
func (r Release) Intact() bool { return r.Status == Deployed && !r.Edited }

// Installed says whether a version is in force, by plumbline.
func (r Release) Installed(version string) bool {
	return r.Status == Deployed && !r.Edited && r.Mark.Version == charts.Label(version)
}

// Ahead says whether CRDs in force, by plumbline, are newer than a version.
func (r Release) Ahead(of string) bool {
	return r.Status == Deployed && !r.Edited && r.Name == charts.CRDChart && charts.Ahead(r.version(), of)
}

// version of the chart of the last revision, where it is known.
func (r Release) version() string { return charts.FromLabel(r.Mark.Version) }

// result is that of a step that has written nothing.
func (r Release) result(step Step) Result {
	return Result{Step: step, Revision: r.Revision, Version: r.version()}
}

// Mark says what a revision is made from. It is kept in the labels of the
// release, so that an unchanged release is recognised without reading it.
type Mark struct {
	// Version of the chart, for people.
	Version string
	// Digest of the chart and Values are fingerprints.
	Digest, Values string
}

// The labels of a release's Secret. Helm hands a release's own labels on to
// each new revision, whichever client makes it; the revision label says whether it was us.
const (
	versionLabel  = "plumbline.dev/chart-version"
	digestLabel   = "plumbline.dev/chart-digest"
	valuesLabel   = "plumbline.dev/chart-values"
	revisionLabel = "plumbline.dev/release-revision"
)

// secretLister lists the metadata of the Secrets in one namespace.
type secretLister interface {
	List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
}

// readState asks only for metadata: a release's Secret holds its whole chart.
func readState(ctx context.Context, secrets secretLister) (State, error) {
	revisions, err := listRevisions(ctx, secrets)
	if err != nil {
		return State{}, err
	}
	return State{CRDs: last(charts.CRDChart, revisions), Controller: last(charts.ControllerChart, revisions)}, nil
}

func listRevisions(ctx context.Context, secrets secretLister) ([]metav1.PartialObjectMetadata, error) {
	list, err := secrets.List(ctx, metav1.ListOptions{
		LabelSelector: fmt.Sprintf("owner=helm,name in (%s,%s)", charts.CRDChart, charts.ControllerChart),
	})
	if err != nil {
		return nil, fmt.Errorf("list the Secrets of Helm's releases: %w", err)
	}
	return list.Items, nil
}

// earlierThan is the newest revision of our own that was installed before the last one, and
// made from something else; Absent where there is none.
func earlierThan(newest Release, secrets []metav1.PartialObjectMetadata) Release {
	before := slices.DeleteFunc(slices.Clone(secrets), func(secret metav1.PartialObjectMetadata) bool {
		labels := secret.Labels
		revision, err := strconv.Atoi(labels["version"])
		return err != nil || revision >= newest.Revision || markOf(labels) == newest.Mark ||
			labels[digestLabel] == "" || labels[revisionLabel] != labels["version"] ||
			labels["status"] != helmrelease.StatusSuperseded.String()
	})
	return last(newest.Name, before)
}

// last reads the newest revision of a release.
func last(name string, secrets []metav1.PartialObjectMetadata) Release {
	r := Release{Name: name, Status: Absent}
	for i := range secrets {
		labels := secrets[i].Labels
		revision, err := strconv.Atoi(labels["version"])
		if labels["name"] != name || err != nil || revision <= r.Revision {
			continue
		}
		r = Release{
			Name:     name,
			Status:   status(labels),
			Revision: revision,
			Foreign:  labels[digestLabel] == "",
			Mark:     markOf(labels),
			Edited:   labels[revisionLabel] != labels["version"],
			Since:    secrets[i].CreationTimestamp.Time,
		}
		if labels["status"] == helmrelease.StatusUninstalling.String() {
			// That is another client's work: nothing here uninstalls.
			r.Edited, r.Since = true, modified(labels, r.Since)
		}
	}
	return r
}

// modified is when Helm has changed a revision last, which it writes to a label in
// seconds; its creation where that label is missing.
func modified(labels map[string]string, created time.Time) time.Time {
	seconds, err := strconv.ParseInt(labels["modifiedAt"], 10, 64)
	if err != nil {
		return created
	}
	return time.Unix(seconds, 0)
}

func status(labels map[string]string) Status {
	switch helmrelease.Status(labels["status"]) {
	case helmrelease.StatusDeployed:
		return Deployed
	case helmrelease.StatusFailed, helmrelease.StatusSuperseded:
		return Failed
	case helmrelease.StatusPendingInstall, helmrelease.StatusPendingUpgrade, helmrelease.StatusPendingRollback,
		helmrelease.StatusUninstalling, helmrelease.StatusUninstalled, helmrelease.StatusUnknown:
	}
	return Pending
}

// markOf reads a Mark from a revision's labels.
func markOf(labels map[string]string) Mark {
	return Mark{Version: labels[versionLabel], Digest: labels[digestLabel], Values: labels[valuesLabel]}
}

// labels are a Mark as a revision's labels.
func (m Mark) labels(revision int) map[string]string {
	return map[string]string{
		versionLabel:  m.Version,
		digestLabel:   m.Digest,
		valuesLabel:   m.Values,
		revisionLabel: strconv.Itoa(revision),
	}
}

func (s State) of(name string) Release {
	if name == charts.CRDChart {
		return s.CRDs
	}
	return s.Controller
}
