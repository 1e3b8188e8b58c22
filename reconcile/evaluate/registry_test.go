package evaluate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// frozen is a suspended NodeSync whose entries a step of another one requests.
type frozen struct {
	*PlanStep
	all     []v1alpha1.NodeSync
	files   fstest.MapFS
	err     error
	read    []time.Time
	fetched int
}

func newFrozen(change func(*v1alpha1.NodeSync)) *frozen {
	other := another(func(n *v1alpha1.NodeSync) {
		n.Spec.Suspend, n.Spec.Path = true, "./gpu"
		n.Spec.Source.Git.URL = "https://git.example.com/acme/other.git"
		n.Spec.Interval.Duration = time.Hour
		change(n)
	})
	f := &frozen{PlanStep: planStep(nodeSync(unchanged))}
	f.all = []v1alpha1.NodeSync{*f.Sync, *other}
	f.Snapshot = &render.Snapshot{Commit: "1"}
	f.Memory.Fetched(f.Now)
	f.Fetch = func(types.NamespacedName, time.Time) { f.fetched++ }
	return f
}

// answers is the reconcile of the suspended NodeSync.
func (f *frozen) answers(t *testing.T) (woken []types.NamespacedName) {
	t.Helper()
	s := planStep(&f.all[1])
	s.Registry, s.Now = f.Registry, f.Now
	s.Enqueue = func(name types.NamespacedName) { woken = append(woken, name) }
	s.Read = func(_ context.Context, notBefore time.Time) (*render.Snapshot, time.Time, error) {
		f.read = append(f.read, notBefore)
		return &render.Snapshot{Commit: "2", FS: f.files}, f.Now, f.err
	}
	s.Answer(t.Context())
	return woken
}

// awaits makes the step wait for what others have.
func (f *frozen) awaits() {
	f.awaitOthers(&plan.Plan{Kept: []plan.Kept{{By: "plumbline-system/gpu"}}}, f.all, false)
}

const (
	gpuKarpenter = "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: prod-eu, region: eu-west-1}\nversion: 1.14.1\n"
	gpuPool      = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: batch}\nspec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}}\n"
)

// TestASuspendedNodeSyncIsRead shows that its entries are read, from any Git, for a NodeSync that waits for them: it
// renders nothing for itself.
func TestASuspendedNodeSyncIsRead(t *testing.T) {
	folder := func(nodes string) fstest.MapFS {
		return fstest.MapFS{"gpu/plumbline.yaml": {Data: []byte(gpuKarpenter)}, "gpu/nodes.yaml": {Data: []byte(nodes)}}
	}
	entries := func(names ...string) map[render.Ref]bool { return entriesOf(setWith(names...)) }
	for name, c := range map[string]struct {
		files fstest.MapFS
		err   error
		want  plan.OtherSync
	}{
		"it has the entry":     {folder(gpuPool), nil, plan.OtherSync{Known: true, Entries: entries("batch")}},
		"it has another":       {folder(strings.Replace(gpuPool, "batch", "other", 1)), nil, plan.OtherSync{Known: true, Entries: entries("other")}},
		"it has nothing left":  {folder("# moved\n"), nil, plan.OtherSync{Known: true, Entries: entries()}},
		"its folder is gone":   {fstest.MapFS{}, nil, plan.OtherSync{Known: true, Entries: entries()}},
		"it cannot be read":    {folder("kind: ["), nil, plan.OtherSync{Failure: "Invalid"}},
		"it cannot be fetched": {nil, errors.New("the host is away"), plan.OtherSync{Failure: "Failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrozen(unchanged)
			f.files, f.err = c.files, c.err
			if f.answers(t); len(f.read) > 0 {
				t.Fatal("it is read though nobody waits")
			}
			if got := f.otherSyncs(f.all)[0]; got.Known || !got.Awaited {
				t.Errorf("before it was read: %+v, want one that is awaited", got)
			}
			f.awaits()
			if woken := f.answers(t); len(woken) != 1 || f.fetched != 1 {
				t.Errorf("%v are woken, want the one that waits; %d passes were wanted", woken, f.fetched)
			}
			if diff := cmp.Diff([]time.Time{f.Now}, f.read); diff != "" {
				t.Errorf("read for what is no older than (-want +got):\n%s", diff)
			}
			c.want.Since = f.Now
			c.want.Owner, c.want.Suspended, c.want.Awaited = plan.OwnerOf(namespace, "gpu"), true, true
			if diff := cmp.Diff([]plan.OtherSync{c.want}, f.otherSyncs(f.all)); diff != "" {
				t.Errorf("others (-want +got):\n%s", diff)
			}
			if f.answers(t); len(f.read) != 1 {
				t.Error("it is read again for one question")
			}
		})
	}
}

// TestACommandAsksTheOthers shows that a command that replaces the daemon requests the entries of others: no reconciles
// of their own report them.
func TestACommandAsksTheOthers(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeSync){
		"one that is suspended": unchanged,
		"one that is not":       func(n *v1alpha1.NodeSync) { n.Spec.Suspend = false },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFrozen(change)
			f.Reconciles = func(n *v1alpha1.NodeSync) bool { return n.UID == f.Sync.UID }
			f.files = fstest.MapFS{"gpu/plumbline.yaml": {Data: []byte(gpuKarpenter)}, "gpu/nodes.yaml": {Data: []byte(gpuPool)}}
			f.awaits()
			if woken := f.answers(t); len(woken) != 1 || len(f.read) != 1 {
				t.Errorf("%v are woken, and it is read %d times", woken, len(f.read))
			}
			if other := f.otherSyncs(f.all)[0]; !other.Known || other.Suspended != f.all[1].Spec.Suspend {
				t.Errorf("%+v, want one that is known", other)
			}
			f.err = errors.New("the host is away")
			f.Now = f.Now.Add(2 * time.Hour)
			f.Memory.Fetched(f.Now)
			f.awaits()
			f.answers(t)
			if other := f.otherSyncs(f.all)[0]; other.Known || other.Failure != "Failed" {
				t.Errorf("%+v, want why it cannot be read", other)
			}
		})
	}
}

// TestAWaitForWhatAnotherHasIsTimed shows that the wait for a NodeSync that is known to have an entry and does not
// apply it is timed like that for unknown entries, until nothing waits for it.
func TestAWaitForWhatAnotherHasIsTimed(t *testing.T) {
	f := newFrozen(unchanged)
	f.files = fstest.MapFS{"gpu/plumbline.yaml": {Data: []byte(gpuKarpenter)}, "gpu/nodes.yaml": {Data: []byte(gpuPool)}}
	f.awaits()
	f.answers(t)
	began, waits := f.Now, &plan.Plan{Changes: []plan.Change{{Reason: plan.ReasonOtherSync, WaitsFor: "NodeSync/gpu"}}}
	for range 3 {
		f.Now = f.Now.Add(time.Minute)
		f.awaitOthers(waits, f.all, false)
		if other := f.otherSyncs(f.all)[0]; !other.Known || !other.Since.Equal(began) {
			t.Errorf("%+v, want one that is known, and waited for since %s", other, began)
		}
	}
	f.awaitOthers(&plan.Plan{}, f.all, false)
	if other := f.otherSyncs(f.all)[0]; !other.Since.IsZero() {
		t.Errorf("waited for since %s, though nothing waits", other.Since)
	}
}

// TestASuspendedNodeSyncIsReadAgain for each commit, and after a failure only after the retry interval.
func TestASuspendedNodeSyncIsReadAgain(t *testing.T) {
	f := newFrozen(unchanged)
	f.files = fstest.MapFS{}
	f.awaits()
	f.answers(t)
	if f.awaits(); f.fetched != 1 {
		t.Error("it is read again for the same commit")
	}
	f.Now = f.Now.Add(time.Second)
	f.Snapshot = &render.Snapshot{Commit: "3"}
	f.Memory.Fetched(f.Now)
	if got := f.otherSyncs(f.all)[0]; got.Known {
		t.Error("what it had before our commit counts as its newest")
	}
	f.err = errors.New("the host is away")
	f.awaits()
	if woken := f.answers(t); len(woken) != 1 || f.fetched != 2 {
		t.Errorf("%v are woken of the failure; %d passes were wanted", woken, f.fetched)
	}
	f.Findings = finding.Findings{}
	f.awaits()
	if f.fetched != 2 || !f.WakeAt.Equal(f.Now.Add(f.Retry)) {
		t.Errorf("%d passes were wanted right after a failure, and the next look is at %s", f.fetched, f.WakeAt)
	}
	f.Now = f.Now.Add(f.Retry)
	f.awaits()
	if woken := f.answers(t); len(woken) != 0 || f.fetched != 3 {
		t.Errorf("%v are woken of the same failure; %d passes were wanted", woken, f.fetched)
	}

	f.err = nil
	f.Now = f.Now.Add(f.Retry)
	f.awaits()
	if woken := f.answers(t); len(woken) != 1 || !f.otherSyncs(f.all)[0].Known {
		t.Errorf("%v are woken once it could be read", woken)
	}
	before := f.fetched
	if f.awaits(); f.fetched != before {
		t.Error("it is read again at once")
	}
	f.Now = f.Now.Add(time.Hour)
	if f.awaits(); f.fetched != before+1 {
		t.Error("it is not read again after its interval, though something waits for it")
	}
}
