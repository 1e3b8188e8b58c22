package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/render"
)

// hasApplied has a NodeSync have applied NodePools, each with its UID.
func hasApplied(t *testing.T, s *apiServer, sync *v1alpha1.NodeSync, pools map[string]types.UID) {
	t.Helper()
	record := inventory.Record{Objects: map[render.Ref]types.UID{}, Pools: map[string]bool{}}
	for name, uid := range pools {
		record.Objects[render.Ref{Kind: render.NodePool, Name: name}], record.Pools[name] = uid, true
	}
	c := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	if err := (&inventory.Store{}).Save(t.Context(), c, sync, record); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: sync.Namespace, Name: v1alpha1.AppliedName(sync.Name)}, object); err != nil {
		t.Fatal(err)
	}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	s.objects["/api/v1/namespaces/fleet/configmaps/"+object.Name] = object
}

// TestTeardownTerminatesWhatItsPoolsLeft: where the CRD of NodePools is gone, and they with it, a NodeClaim is the
// NodeSync's by the record of what was applied, and by no name.
func TestTeardownTerminatesWhatItsPoolsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		pools map[string]types.UID
		asked []string
		says  string
	}{
		"of a pool that was applied":     {map[string]types.UID{"general": "p1"}, []string{"i-0a1"}, "left in AWS: nothing; left in the cluster: NodeClaim/0a1, EC2NodeClass/default, NodeSync/prod. "},
		"of another pool of that name":   {map[string]types.UID{"general": "p2"}, nil, "nodesync/prod is not gone after 300ms"},
		"of a pool that was not applied": {map[string]types.UID{"batch": "p1"}, nil, "nodesync/prod is not gone after 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, authority := leftByKarpenter(t, "Drained=True", "VolumesDetached=True")
			for path, object := range s.objects {
				if strings.Contains(path, "/nodepools/") {
					delete(s.objects, path)
				}
				if strings.Contains(path, "/nodeclaims/") {
					object.(map[string]any)["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "general", "uid": "p1"}}
				}
			}
			hasApplied(t, s, s.objects[syncPath+"prod"].(*v1alpha1.NodeSync), c.pools)
			aws, by := awsAnswers(instances(nil, "i-0a1"), instances(nil, "i-0a1"), instances(nil, "i-0a1"), instances(nil)), &endingAWS{}
			aws.eks, aws.authority = map[string]error{"demo": nil}, authority
			v := verification{dial: aws.dial, dialEnder: by.dial, now: time.Now, pause: time.Millisecond, strandedAfter: 20 * time.Millisecond}
			timeout := "1m"
			if c.asked == nil {
				timeout = "300ms"
			}
			got := teardownAsking(t.Context(), t, nil, v, "prod", "--yes", "--terminate", "--timeout", timeout, "--kubeconfig", kubeconfig)
			if got.code != exitStalled || !slices.Equal(c.asked, by.asked) || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d; ends %v, want %v; says %s\nwant %q in it", got.code, by.asked, c.asked, got.err, c.says)
			}
			if shown := strings.Contains(got.out, "NodePool/general (deleted already)"); shown != (c.asked != nil) {
				t.Errorf("prints %s", got.out)
			}
		})
	}
}
