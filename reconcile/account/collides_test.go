package account

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestForeignProviderIDs checks that they are left out of the query, and reported once.
func TestForeignProviderIDs(t *testing.T) {
	claims := []plan.NodeClaim{
		{Name: "a", Pool: "batch", ProviderID: "aws:///eu-west-1a/i-1"},
		{Name: "b", Pool: "batch", ProviderID: "kwok://node"},
		{Name: "c", Pool: "batch", ProviderID: "aws:////i-3"},
		{Name: "new", Pool: "batch"},
	}
	if diff := cmp.Diff([]string{"aws:///eu-west-1a/i-1"}, providerIDs(claims)); diff != "" {
		t.Errorf("asked about (-want +got):\n%s", diff)
	}
	a := newAsker(&aws{err: errUnreachable})
	for round := range 2 {
		s := a.step()
		s.Claims = claims
		s.Verify(t.Context())
		want := []finding.Note{{Type: "Warning", Reason: "UnknownProviderID", Message: "NodeClaim/b of NodePool/batch (kwok://node), NodeClaim/c of NodePool/batch (aws:////i-3): not an EC2 instance, so EC2 cannot report whether it is terminated: the removal of its NodePool needs a manual check"}}
		if round > 0 {
			want = nil
		}
		if diff := cmp.Diff(want, s.Notes); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		a.now = a.now.Add(time.Hour)
	}
	if a.aws.asked != 2 {
		t.Errorf("asked %d times, want 2", a.aws.asked)
	}
}

// TestCollides checks that only a running controller with the other cluster's name is an emergency, and that it is not
// if plumbline's role has changed accounts.
func TestCollides(t *testing.T) {
	differs := cloud.Verdict{Reason: cloud.ReasonAuthorityDiffers, Message: "AWS says so"}
	for name, c := range map[string]struct {
		verdict  cloud.Verdict
		as       string
		replicas int32
		// before is the ARN of the cluster that was verified to be this one.
		before string
		want   bool
	}{
		"it runs as that cluster":            {verdict: differs, as: "prod-eu", replicas: 1, want: true},
		"under a name that is not known":     {verdict: differs, replicas: 1, want: true},
		"it runs as another cluster":         {verdict: differs, as: "prod-us", replicas: 1},
		"it is scaled to 0":                  {verdict: differs, as: "prod-eu"},
		"AWS does not answer":                {verdict: cloud.Verdict{Reason: "Failed"}, as: "prod-eu", replicas: 1},
		"plumbline's role changed accounts":  {verdict: differs, as: "prod-eu", replicas: 1, before: "arn:ours"},
		"that cluster was the verified one":  {verdict: differs, as: "prod-eu", replicas: 1, before: "arn:theirs", want: true},
		"it is the cluster that it is to be": {verdict: cloud.Verdict{OK: true, Reason: cloud.ReasonVerified}, as: "prod-eu", replicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := appsv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: cluster.ControllerLabels()}}
			deployment.Spec.Replicas = &c.replicas
			container := corev1.Container{Name: "controller"}
			if c.as != "" {
				container.Env = []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: c.as}}
			}
			deployment.Spec.Template.Spec.Containers = []corev1.Container{container}
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(deployment).Build()
			a := newAsker(&aws{cluster: prodEU("theirs")})
			s := a.step()
			s.View, s.ClusterARN = &cluster.View{Cached: reader, Uncached: reader, Memory: &cluster.Memory{}}, c.before
			s.Verify(t.Context())
			emergency, err := s.Collides(t.Context(), &c.verdict)
			if err != nil || (emergency != "") != c.want {
				t.Fatalf("%q, error %v", emergency, err)
			}
			if c.want && (!strings.Contains(emergency, "kubectl scale deployment karpenter -n kube-system --replicas=0") || !strings.HasSuffix(emergency, "AWS says so")) {
				t.Errorf("it says %q", emergency)
			}
		})
	}
}
