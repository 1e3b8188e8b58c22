package release

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	helmrelease "helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

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
	byHand.Labels[revisionLabel] = "2" // Helm hands labels on
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

// TestCorrectionPauses after three corrections, whichever process looks; resumes when a user asks
// or Git changes; and holds up nothing else of the release.
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
