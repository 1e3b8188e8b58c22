package release

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// drifted returns the objects of a release that were deleted or changed since Helm wrote them: those that an upgrade to
// the same chart would write.
func (h *helm) drifted(t task) ([]survey.Drift, error) {
	last, err := h.config.Releases.Last(t.Name)
	if err != nil {
		return nil, fmt.Errorf("read the last revision: %w", err)
	}
	resources, err := h.config.KubeClient.Build(strings.NewReader(last.Manifest), false)
	if meta.IsNoMatchError(err) {
		return nil, nil // a kind that is no longer served, such as a ServiceMonitor, cannot be written either
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest of the last revision: %w", err)
	}
	ignored := append(slices.Clone(t.ignored), survey.Replicas())
	var found []survey.Drift
	for _, info := range resources {
		if t.leaves(info.Mapping.GroupVersionKind.Kind, info.Name) {
			continue
		}
		if foreign(info, t.namespace, t.Name) != "" {
			continue // the record was changed: the chart never had the object, and plumbline may not be allowed to read it
		}
		drift, err := compare(info, ignored)
		if err != nil {
			return nil, err
		}
		if drift != nil {
			found = append(found, *drift)
		}
	}
	return found, nil
}

// compare compares an object with its manifest. It returns nil if the object exists, is not being deleted, and matches
// the manifest in each field that is not ignored.
func compare(info *resource.Info, ignored []survey.Ignore) (*survey.Drift, error) {
	wanted, live, err := wantedAndLive(info)
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetDeletionTimestamp() != nil {
		return &survey.Drift{Object: describe(info), Deleted: true}, nil
	}
	if err := survey.Preserve(wanted, live, ignored); err != nil {
		return nil, err
	}
	typed := kube.AsVersioned(&resource.Info{Object: live, Mapping: info.Mapping})
	return survey.Compare(describe(info), kube.AsVersioned(info), typed, live.GetManagedFields())
}

// wantedAndLive returns an object as in the manifest, and as in the cluster; nil if it does not exist there.
func wantedAndLive(info *resource.Info) (wanted, live *unstructured.Unstructured, err error) {
	object, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", describe(info), err)
	}
	wanted, ok := info.Object.(*unstructured.Unstructured)
	live, read := object.(*unstructured.Unstructured)
	if !ok || !read {
		return nil, nil, fmt.Errorf("read %s: its manifest is a %T, and the cluster has a %T", describe(info), info.Object, object)
	}
	return wanted, live, nil
}

// The correction of an object is paused after this many reverts by another controller or a user within this time: each
// correction is a revision of the release, and the next one would be reverted, too.
const (
	maxCorrections   = 3
	correctionWindow = time.Hour
)

// correctedPrefix starts the description of a revision that repairs a release. The names of the objects follow, so that
// the release itself records how often each was corrected.
const correctedPrefix = "corrected: "

// describeRepair returns the description of a revision that corrects objects.
func describeRepair(drifted []survey.Drift) string {
	objects := make([]string, 0, len(drifted))
	for _, d := range drifted {
		objects = append(objects, d.Object)
	}
	return correctedPrefix + strings.Join(objects, ", ")
}

// corrections returns the times at which each object was corrected by the last revisions of a release, newest first. It
// stops at a revision that changed something else. history is sorted, newest first.
func corrections(history []*helmrelease.Release) map[string][]time.Time {
	found := map[string][]time.Time{}
	for _, revision := range history {
		objects, repair := strings.CutPrefix(revision.Info.Description, correctedPrefix)
		if !repair || revision.Labels[revisionLabel] != strconv.Itoa(revision.Version) {
			break
		}
		for _, object := range strings.Split(objects, ", ") {
			found[object] = append(found[object], revision.Info.LastDeployed.Time)
		}
	}
	return found
}

// paused reports whether a drift is one more revert of an object that was corrected too often. A drift of unknown time
// counts as now.
func paused(d survey.Drift, corrected []time.Time, now time.Time) bool {
	if len(corrected) < maxCorrections {
		return false
	}
	at := d.At
	if at.IsZero() {
		at = now
	}
	return corrected[0].Sub(corrected[maxCorrections-1]) <= correctionWindow && at.Sub(corrected[0]) <= correctionWindow
}

// drifted returns the objects of a release that have drifted; those whose correction is paused are in left.
func (i *Installer) drifted(t task) (drifted, left []survey.Drift, err error) {
	helm, err := newHelm(i.config, t.namespace, i.options.Logger)
	if err != nil {
		return nil, nil, err
	}
	all, err := helm.drifted(t)
	if err != nil {
		return nil, nil, fmt.Errorf("compare Helm release %s with the cluster: %w", t.Name, err)
	}
	if len(all) == 0 || t.correctPaused {
		return all, nil, nil
	}
	corrected, err := helm.corrections(t.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("read how often Helm release %s was corrected: %w", t.Name, err)
	}
	for _, d := range all {
		if paused(d, corrected[d.Object], i.options.Now()) {
			left = append(left, d)
		} else {
			drifted = append(drifted, d)
		}
	}
	return drifted, left, nil
}

// corrections returns when each object was corrected by the last revisions.
func (h *helm) corrections(name string) (map[string][]time.Time, error) {
	history, err := h.config.Releases.History(name)
	if err != nil {
		return nil, fmt.Errorf("read its revisions: %w", err)
	}
	releaseutil.Reverse(history, releaseutil.SortByRevision)
	return corrections(history), nil
}
