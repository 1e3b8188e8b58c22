package release

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// TestWhatWasMovedIsPutRight: the release is up to date, but the cluster differs from it.
func TestWhatWasMovedIsPutRight(t *testing.T) {
	crd := crdsPath + "/nodepools.karpenter.sh"
	tests := map[string]struct {
		ensure func(*bed) (Result, error)
		move   func(*fakeAPIServer)
		moved  survey.Drift
		// right returns a field afterwards.
		right func(*fakeAPIServer) any
		want  any
	}{
		"a Deployment was deleted": {
			ensure: (*bed).controller,
			move:   func(f *fakeAPIServer) { delete(f.objects, deploymentPath) },
			moved:  survey.Drift{Object: "Deployment kube-system/karpenter", Deleted: true},
			right:  func(f *fakeAPIServer) any { return f.objects[deploymentPath]["kind"] },
			want:   "Deployment",
		},
		"a Deployment was changed": {
			ensure: (*bed).controller,
			move:   func(f *fakeAPIServer) { field(f.objects[deploymentPath], "spec")["minReadySeconds"] = 7 },
			moved:  survey.Drift{Object: "Deployment kube-system/karpenter", Fields: []string{"spec.minReadySeconds"}},
			right:  func(f *fakeAPIServer) any { return field(f.objects[deploymentPath], "spec")["minReadySeconds"] },
			want:   float64(3),
		},
		"a CRD was deleted": {
			ensure: (*bed).crds,
			move:   func(f *fakeAPIServer) { delete(f.objects, crd) },
			moved:  survey.Drift{Object: "CustomResourceDefinition nodepools.karpenter.sh", Deleted: true},
			right:  func(f *fakeAPIServer) any { return f.objects[crd]["kind"] },
			want:   "CustomResourceDefinition",
		},
		"a CRD was changed": {
			ensure: (*bed).crds,
			move:   func(f *fakeAPIServer) { field(f.objects[crd], "spec")["scope"] = "Namespaced" },
			moved:  survey.Drift{Object: "CustomResourceDefinition nodepools.karpenter.sh", Fields: []string{"spec.scope"}},
			right:  func(f *fakeAPIServer) any { return field(f.objects[crd], "spec")["scope"] },
			want:   "Cluster",
		},
		"a CRD may no longer outlive its release": {
			ensure: (*bed).crds,
			move: func(f *fakeAPIServer) {
				delete(field(f.objects[crd], "metadata", "annotations"), kube.ResourcePolicyAnno)
			},
			moved: survey.Drift{Object: "CustomResourceDefinition nodepools.karpenter.sh", Fields: []string{"metadata.annotations.helm.sh/resource-policy"}},
			right: func(f *fakeAPIServer) any {
				return field(f.objects[crd], "metadata", "annotations")[kube.ResourcePolicyAnno]
			},
			want: kube.KeepPolicy,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.both()
			b.api.mu.Lock()
			test.move(b.api)
			b.api.mu.Unlock()
			result, err := test.ensure(b)
			if diff := cmp.Diff(Result{Step: Repair, Changed: true, Revision: 2, Version: "1.14.1", Drifted: []survey.Drift{test.moved}}, result); err != nil || diff != "" {
				t.Fatalf("ensure (-want +got):\n%s%v", diff, err)
			}
			if got := test.right(b.api); got != test.want {
				t.Errorf("afterwards it has %v, want %v", got, test.want)
			}
			b.api.takeWrites()
			if result, err := test.ensure(b); err != nil || result.Changed {
				t.Errorf("again = %+v, %v; want nothing done", result, err)
			}
		})
	}
}

// TestWhatOthersMayWriteIsLeft: defaults of the API server, and what a user or an autoscaler adds or scales, are kept.
func TestWhatOthersMayWriteIsLeft(t *testing.T) {
	b := newBed(t)
	b.both()
	b.api.mu.Lock()
	field(b.api.objects[deploymentPath], "spec")["replicas"] = 0
	field(b.api.objects[deploymentPath], "spec")["progressDeadlineSeconds"] = 600
	field(b.api.objects[deploymentPath], "metadata")["annotations"].(map[string]any)["kubectl.kubernetes.io/restartedAt"] = "today"
	field(b.api.objects[crdsPath+"/nodepools.karpenter.sh"], "spec")["conversion"] = map[string]any{"strategy": "None"}
	b.api.mu.Unlock()
	for _, ensure := range []func() (Result, error){b.crds, b.controller} {
		if result, err := ensure(); err != nil || result.Step != Keep {
			t.Errorf("ensure = %+v, %v; want nothing done", result, err)
		}
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

// field returns a nested field of a decoded object.
func field(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object = object[name].(map[string]any)
	}
	return object
}

// TestASilentServerIsNoReasonToWrite: an unreachable API server is an error, not drift.
func TestASilentServerIsNoReasonToWrite(t *testing.T) {
	b := newBed(t)
	b.both()
	b.api.server.Close()
	if _, _, err := b.installer.drifted(task{Chart: charts.Chart{Name: charts.CRDChart}, namespace: "kube-system"}); err == nil || !strings.Contains(err.Error(), "karpenter-crd") {
		t.Errorf("drifted() with the API server away = %v, want an error", err)
	}
}

func TestCorrections(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0) }
	revision := func(version, minute int, description string) *helmrelease.Release {
		return &helmrelease.Release{
			Version: version, Labels: map[string]string{revisionLabel: strconv.Itoa(version)},
			Info: &helmrelease.Info{Description: description, LastDeployed: helmtime.Time{Time: at(minute)}},
		}
	}
	role, deployment := survey.Drift{Object: "Role kube-system/karpenter"}, survey.Drift{Object: "Deployment kube-system/karpenter"}
	byHand := revision(3, 3, describeRepair([]survey.Drift{role}))
	byHand.Labels[revisionLabel] = "2" // Helm copies labels
	cases := map[string]struct {
		history []*helmrelease.Release
		want    map[string][]time.Time
	}{
		"none": {[]*helmrelease.Release{revision(1, 1, "Install complete")}, map[string][]time.Time{}},
		"two objects": {
			[]*helmrelease.Release{revision(3, 3, describeRepair([]survey.Drift{role, deployment})), revision(2, 2, describeRepair([]survey.Drift{role})), revision(1, 1, "Install complete")},
			map[string][]time.Time{role.Object: {at(3), at(2)}, deployment.Object: {at(3)}},
		},
		"since another was brought": {
			[]*helmrelease.Release{revision(4, 4, describeRepair([]survey.Drift{role})), revision(3, 3, "Upgrade complete"), revision(2, 2, describeRepair([]survey.Drift{role}))},
			map[string][]time.Time{role.Object: {at(4)}},
		},
		"somebody ran Helm": {[]*helmrelease.Release{byHand, revision(2, 2, describeRepair([]survey.Drift{role}))}, map[string][]time.Time{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, corrections(c.history)); diff != "" {
				t.Errorf("corrections() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPaused(t *testing.T) {
	now := time.Unix(100_000, 0)
	ago := func(minutes ...int) []time.Time {
		var times []time.Time
		for _, m := range minutes {
			times = append(times, now.Add(-time.Duration(m)*time.Minute))
		}
		return times
	}
	cases := map[string]struct {
		drift    survey.Drift
		repaired []time.Time
		want     bool
	}{
		"twice":                        {survey.Drift{At: now}, ago(1, 2), false},
		"three times":                  {survey.Drift{At: now}, ago(1, 2, 3), true},
		"three times in two hours":     {survey.Drift{At: now}, ago(1, 60, 120), false},
		"again, but long after":        {survey.Drift{At: now}, ago(61, 62, 63), false},
		"again, and left for long":     {survey.Drift{At: now.Add(-90 * time.Minute)}, ago(91, 92, 93), true},
		"deleted again":                {survey.Drift{Deleted: true}, ago(1, 2, 3), true},
		"deleted, and left for long":   {survey.Drift{Deleted: true}, ago(61, 62, 63), false},
		"once more, as a person asked": {survey.Drift{At: now}, ago(1, 2, 3, 4), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := paused(c.drift, c.repaired, now); got != c.want {
				t.Errorf("paused() = %t", got)
			}
		})
	}
}

// TestCorrectionPauses: it pauses after three corrections, also across processes; resumes when a user requests it or
// Git changes; and does not block anything else in the release.
func TestCorrectionPauses(t *testing.T) {
	b := newBed(t)
	b.both()
	edit := func() {
		b.api.mu.Lock()
		defer b.api.mu.Unlock()
		field(b.api.objects[deploymentPath], "spec")["minReadySeconds"] = float64(7)
	}
	ensure := func(what string, step Step, paused int) Result {
		t.Helper()
		result, err := b.controller()
		if err != nil || result.Step != step || len(result.Paused) != paused {
			t.Fatalf("%s: %+v, %v; want %s and %d paused", what, result, err, step, paused)
		}
		return result
	}
	for range maxCorrections {
		edit()
		ensure("edited", Repair, 0)
	}
	edit()
	b.api.takeWrites()
	ensure("edited once more", Keep, 1)
	installer, err := NewInstaller(b.installer.options)
	if err != nil {
		t.Fatal(err)
	}
	b.installer = installer
	result := ensure("after a restart", Keep, 1)
	if writes := b.api.takeWrites(); len(writes) > 0 || result.Revision != 1+maxCorrections {
		t.Errorf("it wrote %v, and is at revision %d", writes, result.Revision)
	}
	b.want.CorrectPaused = true
	ensure("a person asks", Repair, 0)
	b.want.CorrectPaused = false
	ensure("it stands", Keep, 0)
	edit()
	ensure("edited after that", Keep, 1)
	b.want.Values = map[string]any{"replicas": 3}
	ensure("Git changes", Upgrade, 0)
	edit()
	ensure("a new story", Repair, 0)
}
