package reconcile

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestModeOf shows what a reconcile does: the first mode that applies.
func TestModeOf(t *testing.T) {
	deleted := func(n *v1alpha1.NodeSync) { now := metav1.Now(); n.DeletionTimestamp = &now }
	suspends := func(n *v1alpha1.NodeSync) { n.Spec.Suspend = true }
	for name, c := range map[string]struct {
		change    []func(*v1alpha1.NodeSync)
		daemon    Settings
		unfilled  bool
		unwatched error
		want      mode
	}{
		"normal":                            {want: normal},
		"caches fill":                       {unfilled: true, change: []func(*v1alpha1.NodeSync){deleted}, want: filling},
		"no watch, and caches do not fill":  {unfilled: true, unwatched: errors.New("forbidden"), want: unwatched},
		"another command's":                 {daemon: Settings{OnlyNodeSync: "another"}, want: answering},
		"in another namespace":              {change: []func(*v1alpha1.NodeSync){func(n *v1alpha1.NodeSync) { n.Namespace = "default" }, deleted}, want: otherNamespace},
		"deleted":                           {change: []func(*v1alpha1.NodeSync){deleted}, want: deleting},
		"deleted and suspended":             {change: []func(*v1alpha1.NodeSync){deleted, suspends}, want: deleting},
		"deleted, and its charts come back": {change: []func(*v1alpha1.NodeSync){deleted}, daemon: Settings{OnlyNodeSync: "11", Installs: func() bool { return true }}, want: normal},
		"new":                               {change: []func(*v1alpha1.NodeSync){func(n *v1alpha1.NodeSync) { n.Finalizers = nil }, suspends}, want: adopting},
		"suspended":                         {change: []func(*v1alpha1.NodeSync){suspends, func(n *v1alpha1.NodeSync) { n.Spec.Drain = true }}, want: suspended},
		"drained":                           {change: []func(*v1alpha1.NodeSync){func(n *v1alpha1.NodeSync) { n.Spec.Drain = true }}, want: draining},
	} {
		t.Run(name, func(t *testing.T) {
			sync := nodeSync(func(n *v1alpha1.NodeSync) {
				for _, change := range c.change {
					change(n)
				}
			})
			c.daemon.Namespace = namespace
			if got := modeOf(sync, c.daemon, !c.unfilled, c.unwatched); got != c.want {
				t.Errorf("mode %d, want %d", got, c.want)
			}
		})
	}
}

// TestAFailedPhaseKeepsWhatWasFound shows that the conclusion has plumbline.yaml and the live objects, even if the
// reconcile stops before anything is evaluated.
func TestAFailedPhaseKeepsWhatWasFound(t *testing.T) {
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", Version: "1.14.1", Identity: "i", Namespace: "kube-system", Cluster: "prod-us", Region: "eu-west-1"}
	}))
	b.source.files = files(karpenterYAML)
	p := b.pass()
	d, err := p.phases(t.Context())
	if err == nil || !strings.Contains(err.Error(), `the first install fixed cluster.name to "prod-us"`) {
		t.Fatalf("error %v, want the renamed cluster refused after AWS was asked", err)
	}
	if found := p.found(&outcome{done: d}); found.Cluster != "prod-eu" || found.CloudVerified == nil || found.Revision == "" {
		t.Errorf("concluded are cluster %q, account %v, revision %q", found.Cluster, found.CloudVerified, found.Revision)
	} else if again := p.now.Add(p.sync.GetRetryInterval()); !found.WakeAt.Equal(again) {
		t.Errorf("AWS is asked again at %s, want %s", found.WakeAt, again)
	}
}

// TestAReconcilePublishesWhatIsInGit shows that it wakes the NodeSyncs that wait for that.
func TestAReconcilePublishesWhatIsInGit(t *testing.T) {
	m := newMirror(t)
	name := m.pass().name()
	m.registry.Forget(name)
	m.passes(m.before)
	if !m.registry.Wants(name, render.Ref{Kind: render.NodePool, Name: "a"}) {
		t.Error("others do not know that NodePool/a is in Git")
	}
}
