package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestWaves: {} uses the defaults, as no waves at all do, and waves need the brake unless they are disabled.
func TestWaves(t *testing.T) {
	v := newValidator(t)
	object := nodeSync(t, `{source: `+git+`, rollout: {waves: {}}}`)
	v.Default(object)
	got := &v1alpha1.NodeSync{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, got); err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.RolloutWaves{
		Start: 1, Factor: 2, Pause: &metav1.Duration{Duration: 10 * time.Minute}, InconclusiveAfter: &metav1.Duration{Duration: 30 * time.Minute},
		OnInconclusive: v1alpha1.InconclusiveContinue,
	}
	if diff := cmp.Diff(want, got.Spec.Rollout.Waves); diff != "" {
		t.Error(diff)
	}
	off := v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Disabled: true}}
	reports := v1alpha1.RolloutPolicy{OnFailure: v1alpha1.RolloutReport}
	for name, c := range map[string]struct {
		policy v1alpha1.RolloutPolicy
		on     bool
	}{"{}": {got.Spec.Rollout, true}, "no waves": {v1alpha1.RolloutPolicy{}, true}, "disabled": {off, false}, "Report": {reports, false}} {
		waves := c.policy.GetWaves()
		if (waves != nil) != c.on || (c.policy.GetWatchFor() != 0) != c.on {
			t.Errorf("%s: waves %+v, judged for %s", name, waves, c.policy.GetWatchFor())
			continue
		}
		if c.on && (waves.Start != 1 || waves.Factor != 2 || waves.GetPause() != 10*time.Minute || waves.GetInconclusiveAfter() != 30*time.Minute ||
			waves.OnInconclusive != v1alpha1.InconclusiveContinue || c.policy.GetWatchFor() != 10*time.Minute) {
			t.Errorf("%s: waves %+v", name, waves)
		}
	}
	for spec, problem := range map[string]string{
		`{waves: {}, onFailure: BrakeAndPropose}`:       "",
		`{waves: {}, watchFor: 0s}`:                     "",
		`{waves: {}, onFailure: Report}`:                "waves stop a rollout whose workloads fail",
		`{onFailure: Report}`:                           "",
		`{waves: {disabled: true}, onFailure: Report}`:  "",
		`{waves: {disabled: false}, onFailure: Report}`: "waves stop a rollout whose workloads fail",
		`{unexpectedDrift: Waves}`:                      "",
		`{waves: {start: 0}}`:                           "spec.rollout.waves.start",
		`{waves: {spread: None}}`:                       "",
		`{waves: {spread: Zone}}`:                       "use a NodePool for each zone, and maxParallelPools: 1",
		`{waves: {pause: 0s}}`:                          "must be 1s to 24h",
		`{waves: {onInconclusive: Skip}}`:               "Unsupported value",
		`{watchFor: 25h}`:                               "must be at most 24h",
	} {
		report := `, report: [{provider: gitea, secretRef: {name: a}}]`
		var found []string
		for _, p := range v.Validate(t.Context(), nodeSync(t, `{source: {git: {url: "https://h/r", ref: {branch: b}, secretRef: {name: a}}}, rollout: `+spec+report+`}`)) {
			found = append(found, fmt.Sprint(p))
		}
		if all := strings.Join(found, "; "); (all == "") != (problem == "") || !strings.Contains(all, problem) {
			t.Errorf("%s: %q, want %q", spec, all, problem)
		}
	}
}
