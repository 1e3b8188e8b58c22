package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// Status of a release.
type Status string

// The values of Status.
const (
	// Absent: Helm has no such release.
	Absent Status = "absent"
	// Deployed: its last revision is deployed.
	Deployed Status = "deployed"
	// Pending: a Helm client is changing it, or was killed while doing so.
	Pending Status = "pending"
	// Failed: its last revision did not succeed.
	Failed Status = "failed"
)

// State is what Helm has recorded about the two releases.
type State struct {
	CRDs, Controller Release
}

// Release is one of the two, at its last revision.
type Release struct {
	Name     string
	Status   Status
	Revision int
	// Readable is the newest revision that Helm can read, once it was determined.
	Readable int
	// Foreign reports whether plumbline has not installed it.
	Foreign bool
	// Mark identifies what our last revision was made from; for a foreign one at most its version.
	Mark Mark
	// Edited reports whether another client made the last revision: a user or a tool ran Helm.
	Edited bool
	// Since is when the last revision was created.
	Since time.Time
}

// Intact reports whether the last revision is deployed and our own: the release was not uninstalled, and no other Helm
// client has changed it.
func (r Release) Intact() bool { return r.Status == Deployed && !r.Edited }

// Installed reports whether a version is deployed by plumbline.
func (r Release) Installed(version string) bool {
	return r.Status == Deployed && !r.Edited && r.Mark.Version == charts.Label(version)
}

// Ahead reports whether the CRDs that plumbline has deployed are newer than a version.
func (r Release) Ahead(of string) bool {
	return r.Status == Deployed && !r.Edited && r.Name == charts.CRDChart && charts.Ahead(r.version(), of)
}

// version returns the version of the last revision's chart, if known.
func (r Release) version() string { return charts.FromLabel(r.Mark.Version) }

// result returns the Result of a step that has written nothing.
func (r Release) result(step Step) Result {
	return Result{Step: step, Revision: r.Revision, Version: r.version()}
}

// Mark identifies what a revision was made from. It is stored in the labels of the release, so that an unchanged
// release is recognised without reading it.
type Mark struct {
	// Version of the chart, for people.
	Version string
	// Digest of the chart, and Values, are fingerprints.
	Digest, Values string
}

// The labels of a release's Secret. Helm copies a release's custom labels to each new revision, whichever client makes
// it; the revision label shows whether plumbline made it.
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

// readState reads only metadata: a release's Secret contains its whole chart.
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

// earlierThan returns the newest superseded revision of our own before the last one that was made from something else;
// Absent if there is none.
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

// last returns the newest revision of a release.
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
			// Another client is uninstalling it: no reconcile does.
			r.Edited, r.Since = true, modified(labels, r.Since)
		}
	}
	return r
}

// modified returns when Helm last changed a revision, which it writes to a label in seconds; its creation if that label
// is missing.
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

// markOf returns the Mark in a revision's labels.
func markOf(labels map[string]string) Mark {
	return Mark{Version: labels[versionLabel], Digest: labels[digestLabel], Values: labels[valuesLabel]}
}

// labels returns a Mark as a revision's labels.
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

// A person, or a tool that restores backups, may truncate a revision's Secret. Helm skips it when it looks for the last
// revision, creates the next one under the same name, and always fails because that name is taken. Requested by number
// it panics (pkg/storage/driver/secrets.go, Get).
//
// readable returns the revisions of a release that Helm can read, unsorted.

// readable are the revisions of a release that Helm can read, in no order.
func (h *helm) readable(name string) ([]*helmrelease.Release, error) {
	history, err := h.config.Releases.History(name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the revisions of Helm release %s: %w", name, err)
	}
	return history, nil
}

// newest returns the last revision; nil if there is none.
func newest(history []*helmrelease.Release) *helmrelease.Release {
	var last *helmrelease.Release
	for _, one := range history {
		if last == nil || one.Version > last.Version {
			last = one
		}
	}
	return last
}

// lastReadable returns the newest revision of a release that Helm can read; 0 if it can read none.
func (i *Installer) lastReadable(t task) (int, error) {
	helm, err := newHelm(i.config, t.namespace, i.options.Logger)
	if err != nil {
		return 0, err
	}
	history, err := helm.readable(t.Name)
	if last := newest(history); last != nil {
		return last.Version, err
	}
	return 0, err
}

// discard deletes the Secrets of the unreadable revisions after the last readable one. They contain nothing usable.
func (i *Installer) discard(ctx context.Context, t task, r Release) error {
	for revision := r.Readable + 1; revision <= r.Revision; revision++ {
		name := recordName(t.Name, revision)
		i.options.Logger.Info("deleting a revision of a Helm release that cannot be read", "secret", name, "namespace", t.namespace)
		if err := i.records(t.namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete secret %s/%s, which cannot be read: %w", t.namespace, name, err)
		}
	}
	return nil
}

// records returns a client for the Secrets in which Helm keeps its revisions.
func (i *Installer) records(namespace string) metadata.ResourceInterface {
	return i.objects.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
}

// recordName returns the Secret in which Helm keeps a revision of a release.
func recordName(release string, revision int) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", release, revision)
}

// earlier turns a task into one that reinstalls a revision of the release: a release contains its whole chart and its
// values, so no registry is needed.
func (h *helm) earlier(t task, revision int) (task, Mark, error) {
	history, err := h.readable(t.Name)
	if err != nil {
		return task{}, Mark{}, err
	}
	at := slices.IndexFunc(history, func(one *helmrelease.Release) bool { return one.Version == revision })
	if at < 0 {
		return task{}, Mark{}, &NoRevisionError{Release: t.Name, Revision: revision}
	}
	found := history[at]
	t.Version, t.Values = found.Chart.Metadata.Version, found.Config
	t.Load = func() (*chart.Chart, error) { return found.Chart, nil }
	t.earlier, t.Digest = true, ""
	mark := markOf(found.Labels)
	if mark.Digest != "" {
		t.Digest = "sha256:" + mark.Digest
	}
	return t, mark, nil
}

// Earlier returns the last revision of the main chart that was made from something else than the current one: the
// target of RollBack if none was recorded. Its Revision is 0 if there is none.
func (i *Installer) Earlier(ctx context.Context, namespace string) (Result, error) {
	revisions, err := listRevisions(ctx, i.secrets(namespace))
	if err != nil {
		return Result{}, err
	}
	return earlierThan(last(charts.ControllerChart, revisions), revisions).result(Keep), nil
}

// RollBack reinstalls the main chart of an earlier revision. It does not change the CRDs. Errors: *NoRevisionError and
// those of EnsureController.
func (i *Installer) RollBack(ctx context.Context, request Request, revision int) (Result, error) {
	state, err := i.State(ctx, request.Namespace)
	if err != nil {
		return Result{}, err
	}
	last := state.Controller
	if last.Readable, err = i.lastReadable(task{Chart: charts.Chart{Name: charts.ControllerChart}, namespace: request.Namespace}); err != nil {
		return Result{}, err
	}
	helm, err := newHelm(i.config, request.Namespace, i.options.Logger)
	if err != nil {
		return Result{}, err
	}
	t, mark, err := helm.earlier(task{
		Chart: charts.Chart{Name: charts.ControllerChart}, namespace: request.Namespace, ignored: request.Ignored, permit: request.Permit,
	}, revision)
	if err != nil {
		return Result{}, err
	}
	if last.Status == Deployed && !last.Edited && last.Mark == mark && last.Readable == last.Revision {
		return last.result(Keep), nil
	}
	step := Upgrade
	if last.Status == Pending || last.Readable < last.Revision {
		step = Recover
	}
	if err := i.options.StillLeader(ctx); err != nil {
		return Result{}, fmt.Errorf("roll Helm release %s back: %w", t.Name, err)
	}
	i.options.Logger.Info("rolling a Helm release back", "release", t.Name, "to", revision, "version", t.Version, "revision", last.Readable+1)
	if err := i.carryOut(ctx, t, step, last, mark); err != nil {
		return last.result(step), fmt.Errorf("roll Helm release %s back to revision %d at version %s: %w", t.Name, revision, t.Version, err)
	}
	return Result{Step: step, Changed: true, Revision: last.Readable + 1, Version: t.Version}, nil
}

// NoRevisionError reports that a revision of a release no longer exists.
type NoRevisionError struct {
	Release  string
	Revision int
}

// Error names the revision.
func (e *NoRevisionError) Error() string {
	return fmt.Sprintf("revision %d of Helm release %s no longer exists, so it cannot be rolled back to: commit a version that works",
		e.Revision, e.Release)
}
