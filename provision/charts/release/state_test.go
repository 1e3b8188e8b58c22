package release

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

func revision(name, number, status string, at time.Time, labels map[string]string) metav1.PartialObjectMetadata {
	all := map[string]string{"name": name, "owner": "helm", "version": number, "status": status}
	for k, v := range labels {
		all[k] = v
	}
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: all, CreationTimestamp: metav1.NewTime(at)}}
}

// TestTheRevisionBefore: it is the newest of our own that was made from something else than the last.
func TestTheRevisionBefore(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old, newer := Mark{Version: "1.8.6", Digest: "a", Values: "v"}, Mark{Version: "1.14.1", Digest: "b", Values: "v"}
	of := func(number int, status string, mark Mark) metav1.PartialObjectMetadata {
		return revision(charts.ControllerChart, strconv.Itoa(number), status, at, mark.labels(number))
	}
	for name, c := range map[string]struct {
		secrets []metav1.PartialObjectMetadata
		want    int
	}{
		"none":                         {},
		"the first":                    {secrets: []metav1.PartialObjectMetadata{of(1, "deployed", newer)}},
		"one before":                   {secrets: []metav1.PartialObjectMetadata{of(1, "superseded", old), of(2, "deployed", newer)}, want: 1},
		"the newest of them":           {secrets: []metav1.PartialObjectMetadata{of(2, "superseded", old), of(3, "deployed", newer), of(1, "superseded", old)}, want: 2},
		"the last one was repaired":    {secrets: []metav1.PartialObjectMetadata{of(1, "superseded", old), of(2, "superseded", newer), of(3, "deployed", newer)}, want: 1},
		"one that failed is none":      {secrets: []metav1.PartialObjectMetadata{of(1, "superseded", old), of(2, "failed", Mark{Version: "1.9.0", Digest: "c"}), of(3, "deployed", newer)}, want: 1},
		"another Helm client's":        {secrets: []metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "superseded", at, nil), of(2, "deployed", newer)}},
		"a revision by hand":           {secrets: []metav1.PartialObjectMetadata{revision(charts.ControllerChart, "2", "superseded", at, old.labels(1)), of(3, "deployed", newer)}},
		"one of the chart of the CRDs": {secrets: []metav1.PartialObjectMetadata{revision(charts.CRDChart, "1", "superseded", at, old.labels(1)), of(2, "deployed", newer)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := earlierThan(last(charts.ControllerChart, c.secrets), c.secrets).result(Keep)
			if got.Revision != c.want || c.want > 0 && got.Version != "1.8.6" {
				t.Errorf("revision %d, version %s, want %d", got.Revision, got.Version, c.want)
			}
		})
	}
}

func TestTheLastRevisionSpeaks(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	mark := Mark{Version: "1.14.1", Digest: "d", Values: "v"}
	tests := map[string]struct {
		secrets []metav1.PartialObjectMetadata
		want    Release
	}{
		"none":           {nil, Release{Name: charts.ControllerChart, Status: Absent}},
		"another's only": {[]metav1.PartialObjectMetadata{revision(charts.CRDChart, "1", "deployed", at, mark.labels(1))}, Release{Name: charts.ControllerChart, Status: Absent}},
		"ten comes after nine": {
			[]metav1.PartialObjectMetadata{
				revision(charts.ControllerChart, "10", "deployed", at, mark.labels(10)),
				revision(charts.ControllerChart, "9", "superseded", at.Add(-time.Hour), mark.labels(9)),
			},
			Release{Name: charts.ControllerChart, Status: Deployed, Revision: 10, Mark: mark, Since: at},
		},
		"a revision by hand has our labels of before": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "2", "deployed", at, mark.labels(1))},
			Release{Name: charts.ControllerChart, Status: Deployed, Revision: 2, Mark: mark, Edited: true, Since: at},
		},
		"somebody else's": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "pending-install", at, nil)},
			Release{Name: charts.ControllerChart, Status: Pending, Foreign: true, Revision: 1, Edited: true, Since: at},
		},
		"uninstalled with its history kept": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "uninstalled", at, mark.labels(1))},
			Release{Name: charts.ControllerChart, Status: Pending, Revision: 1, Mark: mark, Since: at},
		},
		"being uninstalled by hand": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "uninstalling", at.Add(-time.Hour), withLabel(mark.labels(1), "modifiedAt", strconv.FormatInt(at.Unix(), 10)))},
			Release{Name: charts.ControllerChart, Status: Pending, Revision: 1, Mark: mark, Edited: true, Since: time.Unix(at.Unix(), 0)},
		},
		"being uninstalled, by an old Helm": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "uninstalling", at, mark.labels(1))},
			Release{Name: charts.ControllerChart, Status: Pending, Revision: 1, Mark: mark, Edited: true, Since: at},
		},
		"failed": {
			[]metav1.PartialObjectMetadata{revision(charts.ControllerChart, "1", "failed", at, mark.labels(1))},
			Release{Name: charts.ControllerChart, Status: Failed, Revision: 1, Mark: mark, Since: at},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, last(charts.ControllerChart, test.secrets)); diff != "" {
				t.Errorf("last (-want +got):\n%s", diff)
			}
		})
	}
}

// withLabel returns labels with an additional one.
func withLabel(labels map[string]string, name, value string) map[string]string {
	all := maps.Clone(labels)
	all[name] = value
	return all
}

// cutOff truncates a revision's Secret to half.
func (b *bed) cutOff(secret string) {
	b.Helper()
	object := b.api.get(secretsPath + secret)
	data := object["data"].(map[string]any)
	release := data["release"].(string)
	data["release"] = release[:len(release)/8*4]
	b.api.put(secretsPath+secret, object)
}

// TestARevisionThatCannotBeReadIsMadeAnew: Helm would always try to create it under a name that is taken. Nothing but
// the Secret is deleted.
func TestARevisionThatCannotBeReadIsMadeAnew(t *testing.T) {
	const first, second = "sh.helm.release.v1.karpenter.v1", "sh.helm.release.v1.karpenter.v2"
	tests := map[string]struct {
		damage   func(*bed)
		revision int
	}{
		"the last one": {func(b *bed) { b.cutOff(second) }, 2},
		"the last one, killed at it": {func(b *bed) {
			b.setStatus(second, "pending-upgrade")
			b.cutOff(second)
		}, 2},
		"all": {func(b *bed) {
			b.cutOff(first)
			b.cutOff(second)
		}, 1},
		"an earlier one": {func(b *bed) { b.cutOff(first) }, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.both()
			b.want.Values = map[string]any{"replicas": 3}
			if _, err := b.controller(); err != nil {
				t.Fatal(err)
			}
			test.damage(b)
			b.api.takeWrites()
			result, err := b.controller()
			if err != nil || result.Revision != test.revision {
				t.Fatalf("EnsureController() = %+v, %v; want revision %d", result, err, test.revision)
			}
			for _, write := range b.api.takeWrites() {
				if strings.HasPrefix(write, http.MethodDelete) && !strings.Contains(write, "/secrets/") {
					t.Errorf("it deleted: %s", write)
				}
			}
			if state := b.state(); state.Controller.Status != Deployed || state.Controller.Edited || state.Controller.Revision != test.revision {
				t.Errorf("state = %+v", state.Controller)
			}
			if result, err := b.controller(); err != nil || result.Changed {
				t.Errorf("again = %+v, %v; want nothing done", result, err)
			}
		})
	}
}

// TestARollbackPassesOverWhatCannotBeRead: Helm panics if such a revision is requested by its number.
func TestARollbackPassesOverWhatCannotBeRead(t *testing.T) {
	b := newBed(t)
	b.both()
	b.want.Values = map[string]any{"replicas": 3}
	if _, err := b.controller(); err != nil {
		t.Fatal(err)
	}
	b.cutOff("sh.helm.release.v1.karpenter.v2")
	result, err := b.installer.RollBack(b.Context(), b.want, 1)
	if err != nil || !result.Changed || result.Revision != 2 {
		t.Fatalf("RollBack() = %+v, %v", result, err)
	}
	// Only the unreadable revision records that Git once requested three: they could as well come from an autoscaler.
	if spec := b.api.get(deploymentPath)["spec"].(map[string]any); spec["replicas"] != float64(3) {
		t.Errorf("the Deployment has %v", spec)
	}
	if last := b.state().Controller; last.Status != Deployed || last.Edited {
		t.Errorf("the release is %+v", last)
	}
	b.cutOff("sh.helm.release.v1.karpenter.v1")
	if _, err := b.installer.RollBack(b.Context(), b.want, 1); err == nil || !strings.Contains(err.Error(), "revision 1 of Helm release karpenter no longer exists") {
		t.Errorf("RollBack to what cannot be read: %v", err)
	}
}

// TestSomebodyElsesUnreadableRevisionIsLeftAlone: it is not touched before adoption is requested.
func TestSomebodyElsesUnreadableRevisionIsLeftAlone(t *testing.T) {
	b := newBed(t)
	b.api.put(secretsPath+"sh.helm.release.v1.karpenter.v1", map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name":   "sh.helm.release.v1.karpenter.v1",
			"labels": map[string]any{"owner": "helm", "name": "karpenter", "version": "1", "status": "deployed"},
		},
	})
	if _, err := b.controller(); err == nil {
		t.Error("it was touched unasked")
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
	b.want.Adopt = true
	if result, err := b.controller(); err != nil || result.Revision != 1 {
		t.Errorf("EnsureController() = %+v, %v", result, err)
	}
	if writes := b.api.takeWrites(); !slices.Contains(writes, "DELETE "+secretsPath+"sh.helm.release.v1.karpenter.v1") {
		t.Errorf("it wrote %v", writes)
	}
}

// upgraded has 1.15.0 in the cluster over 1.14.1, with other values.
func upgraded(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	b.want.Values = map[string]any{"replicas": 3}
	b.both()
	b.want.Values = map[string]any{"replicas": 5}
	newer := stored(b.T, "1.15.0", chartstest.CRDs(t, "1.15.0"), chartstest.Controller(t, "1.15.0"))
	newer.CRDDigest, newer.Digest = "sha256:"+strings.Repeat("e", 64), "sha256:"+strings.Repeat("f", 64)
	b.charts = newer
	b.both()
	return b
}

// TestRollBack: the controller goes back to its former chart and values, from the release only; the CRDs stay.
func TestRollBack(t *testing.T) {
	for name, status := range map[string]string{"after an upgrade": "", "in the middle of one": "pending-upgrade"} {
		t.Run(name, func(t *testing.T) {
			b := upgraded(t)
			if status != "" {
				b.setStatus("sh.helm.release.v1.karpenter.v2", status)
			}
			result, err := b.installer.RollBack(t.Context(), b.want, 1)
			if err != nil || !result.Changed || result.Revision != 3 {
				t.Fatalf("RollBack() = %+v, %v", result, err)
			}
			state := b.state()
			if state.Controller.Mark.Version != "1.14.1" || state.Controller.Status != Deployed || state.Controller.Edited {
				t.Errorf("the controller's release is %+v", state.Controller)
			}
			if state.CRDs.Mark.Version != "1.15.0" || state.CRDs.Revision != 2 {
				t.Errorf("the CRDs' release is %+v", state.CRDs)
			}
			if spec := b.api.get(deploymentPath)["spec"].(map[string]any); spec["replicas"] != float64(3) {
				t.Errorf("the Deployment has %v", spec)
			}
			b.api.takeWrites()
			again, err := b.installer.RollBack(t.Context(), b.want, 1)
			if diff := cmp.Diff(Result{Step: Keep, Revision: 3, Version: "1.14.1"}, again); err != nil || diff != "" {
				t.Errorf("once more (-want +got):\n%s%v", diff, err)
			}
			if writes := b.api.takeWrites(); len(writes) > 0 {
				t.Errorf("it was there, and it wrote %v", writes)
			}
		})
	}
}

func TestRollBackToWhatIsGone(t *testing.T) {
	b := upgraded(t)
	_, err := b.installer.RollBack(t.Context(), b.want, 7)
	if gone := (*NoRevisionError)(nil); !errors.As(err, &gone) || gone.Revision != 7 {
		t.Errorf("RollBack() = %v, want NoRevisionError", err)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

// TestNewerCRDsArePutRightAsTheyAre: after a rollback of the controller, a deleted newer CRD is recreated as it was,
// and not from the older chart.
func TestNewerCRDsArePutRightAsTheyAre(t *testing.T) {
	b := upgraded(t)
	b.charts = stored(b.T, "1.14.1", chartstest.CRDs(t, "1.14.1"), chartstest.Controller(t, "1.14.1"))
	b.api.takeWrites()
	if result, err := b.crds(); err != nil || result.Changed {
		t.Fatalf("older CRDs = %+v, %v; want nothing done", result, err)
	}
	path := crdsPath + "/nodepools.karpenter.sh"
	b.api.mu.Lock()
	delete(b.api.objects, path)
	b.api.mu.Unlock()
	result, err := b.crds()
	if err != nil || result.Step != Repair {
		t.Fatalf("repair = %+v, %v", result, err)
	}
	if state := b.state(); state.CRDs.Mark.Version != "1.15.0" || b.api.get(path) == nil {
		t.Errorf("the CRDs' release is %+v, the CRD %v", state.CRDs, b.api.get(path))
	}
}

// TestRehearse: nothing is written, whatever it finds.
func TestRehearse(t *testing.T) {
	t.Run("into an empty cluster", func(t *testing.T) {
		b := newBed(t)
		if err := b.installer.Rehearse(t.Context(), b.charts, b.want); err != nil {
			t.Error(err)
		}
		if writes := b.api.takeWrites(); len(writes) > 0 {
			t.Errorf("it wrote %v", writes)
		}
	})
	t.Run("over a release", func(t *testing.T) {
		b := newBed(t)
		b.both()
		b.want.Values = map[string]any{"replicas": 5}
		if err := b.installer.Rehearse(t.Context(), b.charts, b.want); err != nil {
			t.Error(err)
		}
		if writes := b.api.takeWrites(); len(writes) > 0 {
			t.Errorf("it wrote %v", writes)
		}
	})
	t.Run("the second chart is refused", func(t *testing.T) {
		b := newBed(t)
		b.both()
		b.want.Values = map[string]any{"settings": map[string]any{"clusterName": "other"}}
		err := b.installer.Rehearse(t.Context(), b.charts, b.want)
		if contradiction := (*contradiction.Error)(nil); !errors.As(err, &contradiction) {
			t.Errorf("Rehearse() = %v, want contradiction.Error", err)
		}
		b.want.Values = map[string]any{"replicas": 5}
		b.api.put(deploymentPath, map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "karpenter", "namespace": "kube-system"},
		})
		err = b.installer.Rehearse(t.Context(), b.charts, b.want)
		if foreign := (*survey.ForeignObjectsError)(nil); !errors.As(err, &foreign) || !slices.Contains(foreign.Objects, "Deployment kube-system/karpenter (managed by an unknown client)") {
			t.Errorf("Rehearse() = %v, want survey.ForeignObjectsError", err)
		}
		if writes := b.api.takeWrites(); len(writes) > 0 {
			t.Errorf("it wrote %v", writes)
		}
	})
}

// TestCRDsThatSomebodyBroughtStay: a user's `helm upgrade` to newer CRDs is not reverted, though Helm copies our labels
// to its revision.
func TestCRDsThatSomebodyBroughtStay(t *testing.T) {
	b := upgraded(t)
	const secret = secretsPath + "sh.helm.release.v1.karpenter-crd.v2"
	object := b.api.get(secret)
	labels := object["metadata"].(map[string]any)["labels"].(map[string]any)
	labels[revisionLabel], labels[versionLabel] = "1", "1.14.1"
	b.api.put(secret, object)
	b.charts = stored(b.T, "1.14.1", chartstest.CRDs(t, "1.14.1"), chartstest.Controller(t, "1.14.1"))
	result, err := b.crds()
	if diff := cmp.Diff(Result{Step: Keep, Revision: 2, Version: "1.15.0"}, result); err != nil || diff != "" {
		t.Errorf("EnsureCRDs() (-want +got):\n%s%v", diff, err)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}
