package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/render"
)

// plannedOutcome is the outcome of a commit: why nothing of it is done, why the charts stay as they are, and what
// happens to definitions.
type plannedOutcome struct {
	Stopped, ChartsRefused string
	Changes                []string
	Digest                 string
}

// TestPlanAndPassOfARefusedValue shows that nothing waits for the charts if the version in Git is in force, and that
// definitions are refused for their own errors.
func TestPlanAndPassOfARefusedValue(t *testing.T) {
	shared := newPlannedShelf(t)
	w := &plannedWorld{sync: nodeSync(unchanged), server: applytest.New(t), files: fstest.MapFS{
		"prod/plumbline.yaml":  {Data: []byte(plannedYAML + "values: {hostNetwork: true}\n")},
		"prod/nodes/pool.yaml": {Data: []byte(poolText("a", "default", "{key: kubernetes.io/arch, operator: In, values: [s390x]}"))},
	}}
	w.install(shared.identity)
	passed, diff := w.compare(t, shared)
	if diff != "" {
		t.Fatal(diff)
	}
	if !strings.HasPrefix(passed.Stopped, "prod/nodes/pool.yaml") {
		t.Errorf("stopped: %s", passed.Stopped)
	}
}

// TestPlanAndPassOfDigests shows that charts that the NodeSync does not list stop a commit if none are in force, and
// are otherwise not installed.
func TestPlanAndPassOfDigests(t *testing.T) {
	shared := newPlannedShelf(t)
	const says = "this NodeSync names"
	for name, c := range map[string]struct {
		digests            []string
		installed          bool
		stopped, unchanged bool
	}{
		"allowed":                    {digests: []string{"sha256:crds", "sha256:1.14.1"}},
		"allowed, and installed":     {digests: []string{"sha256:crds", "sha256:1.14.1"}, installed: true},
		"not allowed":                {digests: []string{"sha256:crds"}, stopped: true},
		"not allowed, and installed": {digests: []string{"sha256:1.14.1"}, installed: true, unchanged: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &plannedWorld{sync: nodeSync(allowing(&v1alpha1.ChartAllow{Digests: c.digests})), server: applytest.New(t), files: fstest.MapFS{
				"prod/plumbline.yaml":  {Data: []byte(plannedYAML)},
				"prod/nodes/pool.yaml": {Data: []byte(poolText("a", "default", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}"))},
			}}
			w.sync.Spec.Guard.AllowUnverifiedAccount = true
			if c.installed {
				w.install(shared.identity)
			}
			passed, diff := w.compare(t, shared)
			if diff != "" {
				t.Fatal(diff)
			}
			if strings.Contains(passed.Stopped, says) != c.stopped || strings.Contains(passed.ChartsRefused, says) != c.unchanged {
				t.Errorf("the pass: %+v", passed)
			}
		})
	}
}

// TestPlanAndPassOfWhatChartsRenderTo shows that the plan reports what the NodeSync does not allow of it, without a dry
// run on the API server.
func TestPlanAndPassOfWhatChartsRenderTo(t *testing.T) {
	shared := newPlannedShelf(t)
	const says = "renders to no Deployment"
	for name, installed := range map[string]bool{"no release": false, "another one": true} {
		t.Run(name, func(t *testing.T) {
			w := &plannedWorld{sync: nodeSync(unchanged), server: applytest.New(t), asksPermit: true, files: fstest.MapFS{
				"prod/plumbline.yaml":  {Data: []byte(plannedYAML)},
				"prod/nodes/pool.yaml": {Data: []byte(poolText("a", "default", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}"))},
			}}
			w.sync.Spec.Guard.AllowUnverifiedAccount = true
			if installed {
				w.install("another")
			}
			passed, diff := w.compare(t, shared)
			if diff != "" {
				t.Fatal(diff)
			}
			if strings.Contains(passed.Stopped, says) == installed || strings.Contains(passed.ChartsRefused, says) != installed {
				t.Errorf("the pass: %+v", passed)
			}
		})
	}
}

// compare returns the result of a reconcile, and how the plan differs from it.
func (w *plannedWorld) compare(t *testing.T, shared *plannedShelf) (passed plannedOutcome, difference string) {
	t.Helper()
	b := w.bed(t, shared)
	planned, renamed := w.preview(t, b)
	passed = w.pass(b)
	if renamed != "" {
		// AWS, which only the daemon queries, confirms no name here.
		planned = plannedOutcome{Stopped: renamed}
	}
	if diff := cmp.Diff(planned, passed); diff != "" {
		return passed, fmt.Sprintf("plumbline.yaml:\n%s\nthe plan (-) and the pass (+) differ:\n%s", w.files["prod/plumbline.yaml"].Data, diff)
	}
	return passed, ""
}

// preview returns the plan's outcome; renamed is what the daemon refuses unless AWS confirms it.
func (w *plannedWorld) preview(t *testing.T, b *bed) (said plannedOutcome, renamed string) {
	t.Helper()
	seen, err := w.previewStep(b).Make(t.Context())
	if err != nil {
		t.Fatalf("nothing keeps the plan from being made: %v", err)
	}
	said = plannedOutcome{Stopped: words(seen.Stopped), ChartsRefused: words(seen.ChartsRefused)}
	if seen.Stopped == nil {
		said.Changes, said.Digest = script(seen.Plan), seen.Plan.Digest
	}
	return said, words(seen.Renamed)
}

func (w *plannedWorld) previewStep(b *bed) *review.Step {
	return &review.Step{
		Tools: review.Tools{Client: b.Client, Nodes: b.Cluster.Client, Store: b.Charts, Helm: b.Cluster.Helm, Schemas: &b.schemas, NotAsked: "AWS is not queried: the account is not verified"},
		Sync:  b.read(), Snapshot: &render.Snapshot{Revision: nextRevision, Commit: render.CommitOf(nextRevision), FS: w.files}, Now: b.clock.now(),
		HideValues: func([]string) {}, HideCredential: func(string) {},
	}
}

// TestPlanNamesAChangeOfTheCharts shows that a commit that changes no definition may still roll out the controller.
func TestPlanNamesAChangeOfTheCharts(t *testing.T) {
	shared := newPlannedShelf(t)
	for name, c := range map[string]struct {
		text      string
		installed bool
		want      string
	}{
		"nothing is installed": {text: plannedYAML, want: "Karpenter 1.14.1 is installed: chart karpenter-crd, then chart karpenter"},
		"as it is":             {text: plannedYAML, installed: true},
		"another value":        {text: plannedYAML + "values: {replicas: 3}\n", installed: true, want: "the charts of Karpenter 1.14.1 are upgraded: their values or content differ from the installed release, and the controller may be rolled out again"},
		"a refused value":      {text: plannedYAML + "values: {hostNetwork: true}\n", installed: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &plannedWorld{sync: nodeSync(unchanged), server: applytest.New(t), files: fstest.MapFS{
				"prod/plumbline.yaml":   {Data: []byte(c.text)},
				"prod/nodes/class.yaml": {Data: []byte(plannedClass)},
			}}
			if c.installed {
				w.install(shared.identity)
			}
			seen, err := w.previewStep(w.bed(t, shared)).Make(t.Context())
			if err != nil || seen.Stopped != nil || seen.ChartsChange != c.want {
				t.Errorf("charts: %q, want %q; stopped: %v, %v", seen.ChartsChange, c.want, seen.Stopped, err)
			}
		})
	}
}

// pass returns the daemon's outcome: of the first reconcile that writes definitions, or after which it only waits for
// the charts.
func (w *plannedWorld) pass(b *bed) plannedOutcome {
	b.t.Helper()
	var p *pass
	for range 4 {
		p = b.pass()
		p.attempts(b.t.Context())
		if _, err := p.conclude(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		if p.Fault != nil || p.NotUpgraded != nil || len(p.did.Written) > 0 {
			break
		}
		b.clock.forward(time.Second)
	}
	if p.Fault != nil {
		return plannedOutcome{Stopped: p.Fault.Error()}
	}
	done := plannedOutcome{ChartsRefused: words(p.NotUpgraded), Changes: script(p.plan.Plan), Digest: p.plan.Digest}
	if p.want.Unpulled != nil {
		done.ChartsRefused = words(p.want.Unpulled)
	}
	return done
}

func words(err error) string {
	if err == nil {
		return ""
	}
	return fault.Classify(err).Error()
}

// script returns a Plan as lines.
func script(made *plan.Plan) []string {
	var lines []string
	for _, c := range made.Changes {
		lines = append(lines, string(c.Action)+" "+c.Ref.String()+" "+c.Reason+" "+string(c.Effect)+": "+c.Message)
	}
	for _, c := range made.Removals {
		lines = append(lines, "Remove "+c.Ref.String()+" "+c.Reason+": "+c.Message)
	}
	for _, r := range made.Returned {
		lines = append(lines, "Return "+r.Kind+"/"+r.Name)
	}
	return lines
}
