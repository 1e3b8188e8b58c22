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

// TestWaves: waves are off unless they are set, {} uses the defaults, and they need the brake.
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
	if got.Spec.Rollout.GetWatchFor() != 10*time.Minute || (&v1alpha1.RolloutPolicy{}).GetWatchFor() != 0 {
		t.Errorf("workloads are judged for %s", got.Spec.Rollout.GetWatchFor())
	}
	for spec, problem := range map[string]string{
		`{waves: {}, onFailure: BrakeAndPropose}`: "",
		`{waves: {}, watchFor: 0s}`:               "",
		`{waves: {}, onFailure: Report}`:          "waves stop a rollout whose workloads fail",
		`{waves: {start: 0}}`:                     "spec.rollout.waves.start",
		`{waves: {pause: 0s}}`:                    "must be 1s to 24h",
		`{waves: {onInconclusive: Skip}}`:         "Unsupported value",
		`{watchFor: 25h}`:                         "must be at most 24h",
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
