package teardown_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

// nodeSync returns NodeSync fleet/prod.
func nodeSync() *v1alpha1.NodeSync {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "prod", UID: "1"}}
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system", Version: "1.14.1"}
	return sync
}

// claimOf returns a NodeClaim with a node that a NodePool with a UID has created.
func claimOf(name, pool, uid, profile string) karpv1.NodeClaim {
	claim := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: pool},
		OwnerReferences: []metav1.OwnerReference{{Kind: "NodePool", Name: pool, UID: types.UID(uid)}},
	}}
	if profile != "" {
		claim.Annotations = map[string]string{"karpenter.k8s.aws/instance-profile-name": profile}
	}
	claim.Status.NodeName = "node-" + name
	return claim
}

// TestMake checks that the NodeSync's definitions are deleted, that those of others stay with their profiles, and that
// NodeClaims of a NodePool that no longer exists are counted only if the NodeSync has applied exactly that NodePool.
func TestMake(t *testing.T) {
	lives := teardown.Cluster{
		Claims: []karpv1.NodeClaim{
			claimOf("a", "general", "g", "mine"), claimOf("b", "theirs", "t", "used"), claimOf("c", "old", "o", "old"), claimOf("d", "old", "other", "other"),
		},
		Definitions: []unstructured.Unstructured{object("EC2NodeClass", "default", "fleet.prod", ""), object("NodePool", "general", "fleet.prod", ""), object("NodePool", "theirs", "", "")},
		Applied:     func() (map[string]types.UID, error) { return map[string]types.UID{"general": "g", "old": "o"}, nil },
	}
	class, general, old := teardown.Object{Kind: "EC2NodeClass", Name: "default"}, teardown.Object{Kind: "NodePool", Name: "general", NodeClaims: 1}, teardown.Object{Kind: "NodePool", Name: "old", NodeClaims: 1, Gone: true}
	for level, want := range map[teardown.Level]struct {
		objects []teardown.Object
		stays   []string
	}{
		teardown.ToDefinitions: {[]teardown.Object{class, general, old}, []string{"NodePool/theirs", "Karpenter 1.14.1 in namespace kube-system, its charts and CRDs"}},
		teardown.ToNodes:       {[]teardown.Object{general, old}, []string{"EC2NodeClass/default of NodeSync fleet.prod", "NodePool/theirs", "Karpenter 1.14.1 in namespace kube-system, its charts and CRDs"}},
		teardown.ToController:  {[]teardown.Object{class, general, old}, []string{"NodePool/theirs", "the CRDs of Karpenter 1.14.1 in namespace kube-system"}},
		teardown.ToCRDs:        {[]teardown.Object{class, general, old}, []string{"NodePool/theirs"}},
	} {
		got, err := teardown.Make(nodeSync(), level, lives)
		if err != nil {
			t.Fatal(err)
		}
		got.NoteCharts(nodeSync().Status.Karpenter)
		if diff := cmp.Diff(want.objects, got.Objects) + cmp.Diff(want.stays, got.Stays); diff != "" {
			t.Errorf("%s (-want +got):\n%s", level, diff)
		}
		if diff := cmp.Diff(map[string]bool{"used": true}, got.Known.Profiles); diff != "" || got.NodeClaims != 2 || got.Nodes != 2 {
			t.Errorf("%s: %d NodeClaims, %d Nodes, profiles (-want +got):\n%s", level, got.NodeClaims, got.Nodes, diff)
		}
		if claims := got.WithoutOthers(slices.Clone(lives.Claims)); len(claims) != 3 || claims[2].Name != "c" {
			t.Errorf("%s: of its NodePools are %d NodeClaims", level, len(claims))
		}
		if got.Hosted([]plan.Host{{Node: "node-a"}}) == nil || got.Hosted([]plan.Host{{Node: "node-b"}}) != nil {
			t.Errorf("%s: which nodes are drained is wrong", level)
		}
	}
}

// TestStart checks how a stopped controller is started, and by whom.
func TestStart(t *testing.T) {
	down, scaled := appsv1.Deployment{}, appsv1.Deployment{}
	scaled.Spec.Replicas = ptr.To[int32](0)
	up := appsv1.Deployment{Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}
	for name, c := range map[string]struct {
		deployments   []appsv1.Deployment
		change        func(*v1alpha1.NodeSync)
		withoutDaemon string
		terminates    bool
		want          teardown.Start
		refused       bool
	}{
		"it runs":                         {deployments: []appsv1.Deployment{up}, want: teardown.StartNothing},
		"it is scaled to 0":               {deployments: []appsv1.Deployment{scaled}, want: teardown.StartByScaling},
		"it is not ready":                 {deployments: []appsv1.Deployment{down}, want: teardown.StartNothing},
		"it is missing":                   {want: teardown.StartByDaemon},
		"without a daemon":                {withoutDaemon: "no daemon leads", want: teardown.StartByCommand},
		"begun already":                   {change: func(s *v1alpha1.NodeSync) { s.Spec.Drain = true }, want: teardown.StartNothing},
		"suspended":                       {change: func(s *v1alpha1.NodeSync) { s.Spec.Suspend = true }, want: teardown.StartByDaemon, refused: true},
		"External":                        {change: func(s *v1alpha1.NodeSync) { s.Status.Karpenter.Management = "External" }, want: teardown.StartByDaemon, refused: true},
		"External, and --terminate":       {change: func(s *v1alpha1.NodeSync) { s.Status.Karpenter.Management = "External" }, terminates: true, want: teardown.StartNothing},
		"a ready one beside one that not": {deployments: []appsv1.Deployment{down, up}, want: teardown.StartNothing},
	} {
		sync := nodeSync()
		if c.change != nil {
			c.change(sync)
		}
		stopped, p := teardown.StoppedOf("kube-system", c.deployments), teardown.Plan{WithoutDaemon: c.withoutDaemon}
		if stopped != nil {
			if err := p.NoteStopped(stopped, sync, c.terminates, time.Minute); (err != nil) != c.refused {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := stopped.Start(sync, c.withoutDaemon); got != c.want {
			t.Errorf("%s: starts by %d, want %d", name, got, c.want)
		}
	}
}
