package reconcile

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/controller"
	"github.com/fluxcd/pkg/runtime/metrics"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/render"
)

// metered gives a bed a Meter, and Flux's metrics, in a separate registry.
func metered(b *bed) *prometheus.Registry {
	registry := prometheus.NewPedanticRegistry()
	recorder := metrics.NewRecorder()
	b.Meter = status.NewMeter(b.clock.now, func() map[types.NamespacedName]report.QueueDepth {
		if b.client.Get(b.t.Context(), client.ObjectKey{Namespace: namespace, Name: "prod"}, &v1alpha1.NodeSync{}) != nil {
			return nil // like the queue for a NodeSync that is gone
		}
		return map[types.NamespacedName]report.QueueDepth{{Namespace: namespace, Name: "prod"}: {Length: 3, Oldest: b.clock.at.Add(-time.Hour)}}
	})
	b.Metrics = controller.Metrics{Scheme: b.client.Scheme(), MetricsRecorder: recorder}
	registry.MustRegister(append(recorder.Collectors(), b.Meter)...)
	return registry
}

// series returns the samples of a registry: name{label="value",…} and its value; for a histogram the number of samples.
func series(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := family.GetName() + "{" + strings.Join(labels, ",") + "}"
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// of returns the series of a name, by their labels.
func of(all map[string]float64, name string) map[string]float64 {
	some := map[string]float64{}
	for n, value := range all {
		if labels, found := strings.CutPrefix(n, name); found && strings.HasPrefix(labels, "{") {
			some[labels] = value
		}
	}
	return some
}

func TestMeterMeasuresAPass(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	registry := metered(b)
	p := b.pass()
	p.step(t.Context(), step.AddFinalizer, func(ctx context.Context) error {
		return p.does(ctx, func(ctx context.Context, _ done) (done, error) { return p.addFinalizer(ctx) })
	})
	p.step(t.Context(), step.See, p.see)
	p.did.Written = []apply.Written{
		{Ref: render.Ref{Kind: render.NodePool, Name: "a"}, Action: plan.Create, Object: &unstructured.Unstructured{}, Requests: 1},
		{Ref: render.Ref{Kind: render.NodePool, Name: "b"}, Action: plan.Update, Object: &unstructured.Unstructured{}, Requests: 2},
	}
	p.did.Removed = []removal.Write{
		{Kind: render.NodePool, Name: "c", Action: removal.StopGrowth{}},
		{Kind: render.NodePool, Name: "d", Action: removal.DeleteNodeClaim{Name: "d-1"}},
		{Kind: render.NodePool, Name: "d", Action: removal.DeleteNodeClaim{Name: "d-2"}},
		{Kind: render.EC2NodeClass, Name: "e", Action: removal.DeleteObject{}},
	}
	removals(v1alpha1.RemovalDraining, v1alpha1.RemovalDraining, v1alpha1.RemovalHeld)(p)
	since := metav1.NewTime(b.clock.now().Add(-time.Hour))
	p.sync.Status.Removals[1].Stalled = &since
	if _, err := p.conclude(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Meter.Fetched(1000)
	b.Meter.Fetched(24)
	b.Meter.Answered("gitea", 202)
	b.clock.forward(time.Minute)

	got := series(t, registry)
	const sync = "{name=prod,namespace=plumbline-system"
	for name, want := range map[string]map[string]float64{
		"plumbline_writes_total": {
			"{action=create,kind=NodePool}": 1, "{action=update,kind=NodePool}": 2, "{action=restrain,kind=NodePool}": 1,
			"{action=delete,kind=NodeClaim}": 2, "{action=delete,kind=EC2NodeClass}": 1, "{action=patch,kind=NodeSync}": 1,
		},
		"plumbline_step_duration_seconds": {"{step=addFinalizer}": 1, "{step=see}": 1},
		"plumbline_removals": {
			sync + ",phase=Held}": 1, sync + ",phase=Draining}": 2, sync + ",phase=Pacing}": 0, sync + ",phase=VerifyingCloud}": 0, sync + ",phase=Finalizing}": 0,
		},
		"plumbline_removals_in_progress":      {sync + "}": 1}, // one of them has stalled
		"plumbline_stall_age_seconds":         {sync + "}": 3660},
		"plumbline_commit_statuses_queued":    {sync + "}": 3},
		"plumbline_commit_status_age_seconds": {sync + "}": 3600},
		"plumbline_fetches_total":             {"{}": 2},
		"plumbline_fetched_bytes_total":       {"{}": 1024},
		"plumbline_webhook_requests_total":    {"{code=202,host=gitea}": 1},
		"gotk_reconcile_duration_seconds":     {"{kind=NodeSync,name=prod,namespace=plumbline-system}": 1},
	} {
		if diff := cmp.Diff(want, of(got, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMetricsGoWithTheNodeSync shows that no series names a NodeSync that is gone.
func TestMetricsGoWithTheNodeSync(t *testing.T) {
	deleted := func(b *bed) *v1alpha1.NodeSync {
		if err := b.client.Delete(t.Context(), b.read()); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	cases := map[string]func(b *bed){
		"its deletion is concluded": func(b *bed) { deleted(b) },
		"somebody took the finalizer off": func(b *bed) {
			deleted(b)
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := b.client.Patch(t.Context(), b.read(), patch); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			registry := metered(b)
			b.reconcile()
			named := func() []string {
				var names []string
				for n := range series(t, registry) {
					if strings.Contains(n, "name=prod") {
						names = append(names, n)
					}
				}
				return names
			}
			if before := named(); len(before) < 8 {
				t.Fatalf("before: %v", before)
			}
			end(b)
			for range 4 { // a later reconcile sees that what was released is gone
				b.reconcile()
			}
			if left := named(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestMetricsAreDocumented shows that manifests/SPEC.md documents each metric, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	registry := metered(b)
	p := b.pass()
	p.step(t.Context(), step.See, p.see)
	p.did.Removed = []removal.Write{{Kind: render.NodePool, Action: removal.StopGrowth{}}}
	p.Drifts = []status.Drift{{Ref: render.Ref{Kind: render.NodePool, Name: "general"}, Reported: true}}
	p.SawRollout, p.Rollout = true, &v1alpha1.Rollout{Nodes: 1, Outdated: 1}
	p.PoolRollouts = []v1alpha1.PoolRollout{{Pool: "general", Reason: v1alpha1.BrakeFailedLaunches, BrakedAt: &metav1.Time{Time: b.Settings.Now()}}}
	if _, err := p.conclude(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Meter.Fetched(1)
	b.Meter.Answered("github", 202)
	b.Meter.Unwritten(b.pass().name(), errUnreachable)
	registered := map[string]bool{}
	for name := range series(t, registry) {
		registered[name[:strings.IndexByte(name, '{')]] = true
	}
	text, err := os.ReadFile("../manifests/SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## Metrics\n")
	if !found {
		t.Fatal("no section on metrics")
	}
	documented := regexp.MustCompile("(?m)^\\| `((?:plumbline|gotk)_[a-z_]+)`").FindAllStringSubmatch(section, -1)
	var names []string
	for _, match := range documented {
		names = append(names, match[1])
		if !registered[match[1]] {
			t.Errorf("%s is documented, and is none", match[1])
		}
	}
	for name := range registered {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not documented", name)
		}
	}
}
