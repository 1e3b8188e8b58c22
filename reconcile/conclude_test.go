package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// concluded runs only the conclusion.
func (b *bed) concluded(p *pass, f ...found) time.Duration {
	b.t.Helper()
	for _, f := range f {
		f(p)
	}
	result, err := p.conclude(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return result.RequeueAfter
}

func TestConclusionIsWrittenOnce(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.concluded(b.pass(), waits)
	if *b.patches != 1 {
		t.Fatalf("%d writes", *b.patches)
	}
	if got := b.told(); len(got) > 0 {
		t.Errorf("at work, which the status says, and it is told: %q", got)
	}
	old := b.read()
	for i := range old.Status.Conditions {
		old.Status.Conditions[i].LastTransitionTime = metav1.Unix(1_000_000_000, 0)
	}
	if err := b.client.Status().Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	version := b.read().ResourceVersion
	b.clock.forward(time.Hour)
	b.concluded(b.pass(), waits)
	if *b.patches != 1 || b.read().ResourceVersion != version {
		t.Errorf("nothing has changed, and it is written: %d writes, %v", *b.patches, b.read().Status.Conditions)
	}
	if got := b.told(); len(got) > 0 {
		t.Errorf("nothing has changed, and it is told: %q", got)
	}
	b.concluded(b.pass())
	if got := b.told(); *b.patches != 2 || len(got) != 1 {
		t.Errorf("done: %d writes, told %q", *b.patches, got)
	}
}

// TestOneChangeIsToldOnce shows that there is one event for an applied revision until a problem occurs.
func TestOneChangeIsToldOnce(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	at := func(revision string, found ...found) string {
		p := b.pass()
		p.snapshot = &render.Snapshot{Revision: revision}
		b.concluded(p, found...)
		return strings.Join(b.told(), "\n")
	}
	gone := func(p *pass) { p.sync.Status.Removals = nil }
	applied := func(p *pass) { p.Event("Applied", "NodePool/a: Update") }
	for _, pass := range []struct {
		revision string
		found    []found
		want     string
	}{
		{"main@sha1:1", []found{applied, waits}, "Normal Applied NodePool/a: Update"},
		{"main@sha1:1", nil, ""},
		{"main@sha1:2", nil, ""},
		{"main@sha1:2", []found{removals(v1alpha1.RemovalDraining)}, ""},
		{"main@sha1:2", []found{gone}, "Normal Succeeded applied, Ready, no removal open: main@sha1:2"},
		{"main@sha1:3", []found{applied}, "Normal Applied NodePool/a: Update"},
		{"main@sha1:3", []found{stopped(t, errors.New("odd"))}, "Warning Failed odd"},
		{"main@sha1:3", []found{waits}, ""},
		{"main@sha1:3", nil, "Normal Succeeded applied, Ready, no removal open: main@sha1:3"},
	} {
		if got := at(pass.revision, pass.found...); !strings.Contains(got, pass.want) || (pass.want == "") != (got == "") {
			t.Errorf("%s: told %q, want %q", pass.revision, got, pass.want)
		}
	}
}

func TestAnEventNamesAFew(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	if got := finding.Some(names); got != "a, b, c, d, e" {
		t.Errorf("five: %q", got)
	}
	if got := finding.Some(append(names, "f", "g")); got != "a, b, c, d, e and 2 more" {
		t.Errorf("seven: %q", got)
	}
}

// TestConclusionOfAStalePass shows that an outdated reconcile does not overwrite a record that it has not seen.
func TestConclusionOfAStalePass(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()

	other := b.read()
	removals(v1alpha1.RemovalDraining)(&pass{reconciliation: &reconciliation{sync: other}})
	if err := b.client.Status().Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}

	p.Event("Applied", "NodePool/a: Create")
	again := b.concluded(p, stopped(t, errors.New("odd")))
	if diff := cmp.Diff(other.Status, b.read().Status); diff != "" {
		t.Errorf("the status was overwritten:\n%s", diff)
	}
	if got := b.told(); len(got) > 0 {
		t.Errorf("told what was not written: %q", got)
	}
	if again > time.Second || again == 0 {
		t.Errorf("again in %s", again)
	}
}

// TestLostRaceWakesAgain shows that a reconcile whose write was refused is repeated, even if it had nothing more to do,
// such as one that removes the finalizer.
func TestLostRaceWakesAgain(t *testing.T) {
	for name, f := range map[string]found{
		"finished": func(p *pass) { p.finish("") },
		"suspended": func(p *pass) {
			conditions.MarkTrue(p.sync, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
			p.Suspended = true
		},
		"elsewhere": func(p *pass) { p.Elsewhere = true },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			p := b.pass()
			other := b.read()
			other.Labels = map[string]string{"a": "b"}
			if err := b.client.Update(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			if again := b.concluded(p, f); again == 0 || again > time.Second {
				t.Errorf("again in %s", again)
			}
			if got := b.read().Finalizers; len(got) != 1 {
				t.Errorf("finalizers %v", got)
			}
		})
	}
}

func TestRefusedWriteIsAnError(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "nodesyncs"}, "prod")
	for name, c := range map[string]struct{ answer, want error }{
		"an error":             {errUnreachable, errUnreachable},
		"a NodeSync that went": {gone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			b.Client = interceptor.NewClient(b.client, interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return c.answer
			}})
			if _, err := b.pass().conclude(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("err = %v, want %v", err, c.want)
			}
		})
	}
}

func TestFinalizerIsWrittenBeforeAnythingElse(t *testing.T) {
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Finalizers = nil }))
	result := b.reconcile()
	if got := b.read().Finalizers; !cmp.Equal(got, []string{v1alpha1.Finalizer}) {
		t.Errorf("finalizers %v", got)
	}
	if len(b.source.requests) > 0 || result.RequeueAfter > time.Second {
		t.Errorf("fetched %v, again in %s", b.source.requests, result.RequeueAfter)
	}
	if b.reconcile(); len(b.source.requests) != 1 {
		t.Error("the next pass does not fetch")
	}
}

func TestWhenTheNextPassComes(t *testing.T) {
	cases := map[string]struct {
		found []found
		want  time.Duration
	}{
		"done":                    {nil, 10 * time.Minute},
		"waits for a watch":       {[]found{waits}, 10 * time.Minute},
		"waits for a time":        {[]found{waits, func(p *pass) { p.WakeBy(p.now.Add(time.Hour)); p.WakeBy(p.now.Add(5 * time.Second)) }}, 5 * time.Second},
		"failed, may go well":     {[]found{stopped(t, &source.UnreachableError{Err: errUnreachable})}, time.Minute},
		"failed, needs a person":  {[]found{stopped(t, &render.EmptyError{})}, 10 * time.Minute},
		"one object, may go well": {[]found{unwritten(errors.New("odd"))}, time.Minute},
		"a stale snapshot":        {[]found{stopped(t, &source.StaleError{})}, finding.Soon},
		"suspended":               {[]found{func(p *pass) { p.Suspended = true }}, 0},
		"elsewhere":               {[]found{func(p *pass) { p.Elsewhere = true }}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			if got := b.concluded(b.pass(), c.found...); got != c.want {
				t.Errorf("in %s, want %s", got, c.want)
			}
		})
	}
}

func TestEventsCarryTheRevision(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	annotated := &annotated{}
	b.Events = annotated
	p.Warn("Odd", "before a fetch")
	b.concluded(p)
	p = b.pass()
	p.takes(t.Context(), p.fetch)
	p.Warn("Odd", "after it")
	b.concluded(p)
	var got []map[string]string
	for _, e := range annotated.events {
		if e.reason == "Odd" {
			got = append(got, e.annotations)
		}
	}
	if diff := cmp.Diff([]map[string]string{nil, {"plumbline.dev/revision": p.snapshot.Revision}}, got); diff != "" {
		t.Error(diff)
	}
}

// annotated records events with their annotations.
type annotated struct {
	record.FakeRecorder
	events []struct {
		reason      string
		annotations map[string]string
	}
}

func (a *annotated) AnnotatedEventf(_ runtime.Object, annotations map[string]string, _, reason, _ string, _ ...any) {
	a.events = append(a.events, struct {
		reason      string
		annotations map[string]string
	}{reason, annotations})
}

// TestSupportOf shows that the end of support is judged by the time of the reconcile, and not for versions that are
// unknown.
func TestSupportOf(t *testing.T) {
	before, after := time.Date(2026, 2, 5, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 6, 0, 0, 0, 0, time.UTC)
	if got := supportOf("1.7.4", before); got == nil || !got.Ended || !strings.HasPrefix(got.Message, "Karpenter 1.7 has been out of support since 2025-10-08") {
		t.Errorf("ended: %+v", got)
	}
	if got := supportOf("1.8.6", before); got == nil || got.Ended {
		t.Errorf("the day before: %+v", got)
	}
	if got := supportOf("1.8.6", after); got == nil || !got.Ended {
		t.Errorf("on the day: %+v", got)
	}
	for _, version := range []string{"", "unknown", "1.99.0", "1.8.6+acme.3"} {
		if got := supportOf(version, after); got != nil {
			t.Errorf("%q: %+v", version, got)
		}
	}
}
