package release

import (
	"errors"
	"slices"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// TestAChartWithAHook: a chart that has one is refused, on each way, and what is
// there already is brought again without it.
func TestAChartWithAHook(t *testing.T) {
	const hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: pre-upgrade}\n"
	for way, render := range everyRender() {
		t.Run(way, func(t *testing.T) {
			b := newBed(t)
			b.withTemplate(hook)
			var refused *charts.HookError
			if err := render(b); !errors.As(err, &refused) || refused.File != "karpenter/templates/more.yaml" {
				t.Errorf("a hook: %v", err)
			}
		})
	}
}

// TestWhatIsNotPermittedIsNotWritten: the objects of both charts are asked about
// before anything of them is written or rehearsed.
func TestWhatIsNotPermittedIsNotWritten(t *testing.T) {
	refusal := errors.New("not permitted")
	for way, render := range everyRender() {
		if way == "offline" {
			continue // it writes nothing, and asks nobody
		}
		t.Run(way, func(t *testing.T) {
			b := newBed(t)
			asked, calls := map[string][]string{}, 0
			b.want.Permit = func(r Rendered) error {
				for _, object := range r.Objects {
					asked[r.Chart] = append(asked[r.Chart], object.GetKind())
				}
				if r.Chart == charts.ControllerChart {
					calls++
				}
				if r.Chart == charts.CRDChart || way == "upgrade" && calls == 1 {
					return nil
				}
				if r.Version != "1.14.1" || r.Namespace != "kube-system" {
					t.Errorf("asked about %s %s in %s", r.Chart, r.Version, r.Namespace)
				}
				return refusal
			}
			b.withTemplate("# nothing\n")
			if err := render(b); !errors.Is(err, refusal) {
				t.Fatalf("%s: %v", way, err)
			}
			if !slices.Contains(asked[charts.ControllerChart], "Deployment") {
				t.Errorf("asked about %v", asked)
			}
			if writes := b.api.takeWrites(); len(writes) > 0 {
				t.Errorf("written: %v", writes)
			}
		})
	}
}

// TestWhatWasThereIsNotAskedAbout: a rollback and a repair bring what a revision was
// made from, which Git has no word in.
func TestWhatWasThereIsNotAskedAbout(t *testing.T) {
	b := newBed(t)
	b.both()
	b.want.Values = map[string]any{"replicas": 7}
	if result, err := b.controller(); err != nil || result.Revision != 2 {
		t.Fatalf("upgrade: %+v, %v", result, err)
	}
	b.want.Permit = func(Rendered) error { return errors.New("asked") }
	if result, err := b.installer.RollBack(b.Context(), b.want, 1); err != nil || result.Revision != 3 {
		t.Errorf("roll back: %+v, %v", result, err)
	}
}
