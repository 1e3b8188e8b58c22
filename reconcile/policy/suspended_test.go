package policy

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestSuspendedNodeSyncsAreLookedInto: a commit that moves an entry into the folder of a
// suspended NodeSync is not noticed by that.
func TestSuspendedNodeSyncsAreLookedInto(t *testing.T) {
	const karpenter = "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: prod-eu, region: eu-west-1}\nversion: 1.14.1\n"
	const pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: batch}\nspec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}}\n"
	folder := func(nodes string) fstest.MapFS {
		return fstest.MapFS{"gpu/plumbline.yaml": {Data: []byte(karpenter)}, "gpu/nodes.yaml": {Data: []byte(nodes)}}
	}
	batch := map[render.Ref]bool{{Kind: render.NodePool, Name: "batch"}: true}
	for name, c := range map[string]struct {
		change func(*v1alpha1.NodeSync)
		files  fstest.MapFS
		want   plan.OtherSync
	}{
		"it has the entry":      {unchanged, folder(pool), plan.OtherSync{Known: true, Entries: batch}},
		"it has another":        {unchanged, folder(strings.Replace(pool, "batch", "other", 1)), plan.OtherSync{Known: true, Entries: map[render.Ref]bool{{Kind: render.NodePool, Name: "other"}: true}}},
		"it has nothing left":   {unchanged, folder("# moved\n"), plan.OtherSync{Known: true, Entries: map[render.Ref]bool{}}},
		"its folder is gone":    {unchanged, fstest.MapFS{}, plan.OtherSync{Known: true, Entries: map[render.Ref]bool{}}},
		"it cannot be read":     {unchanged, folder("kind: ["), plan.OtherSync{Awaited: true, Failure: "Invalid", Entries: map[render.Ref]bool{}}},
		"on another branch":     {func(n *v1alpha1.NodeSync) { n.Spec.Source.Git.Ref.Branch = "next" }, folder(pool), plan.OtherSync{}},
		"in another repository": {func(n *v1alpha1.NodeSync) { n.Spec.Source.Git.URL = "https://git.example.com/other.git" }, folder(pool), plan.OtherSync{}},
	} {
		t.Run(name, func(t *testing.T) {
			s, other := step(nodeSync(unchanged)), another(func(n *v1alpha1.NodeSync) {
				n.Spec.Suspend, n.Spec.Path = true, "./gpu"
				c.change(n)
			})
			s.Snapshot = &render.Snapshot{Commit: "1", FS: c.files}
			all := []v1alpha1.NodeSync{*s.Sync, *other}
			looked := s.seeSuspended(t.Context(), all)
			if again := s.seeSuspended(t.Context(), all); again {
				t.Error("one commit is looked into twice")
			}
			c.want.Owner, c.want.Suspended = plan.OwnerOf(other.Namespace, other.Name), true
			if diff := cmp.Diff([]plan.OtherSync{c.want}, s.otherSyncs(all)); diff != "" || looked != (c.want.Known || c.want.Awaited) {
				t.Errorf("looked: %t; others (-want +got):\n%s", looked, diff)
			}
			s.Snapshot = &render.Snapshot{Commit: "2"}
			if got := s.otherSyncs(all); got[0].Known || got[0].Awaited {
				t.Errorf("known at another commit: %+v", got)
			}
		})
	}
}
