package pulls

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// stuck is a source whose fetch blocks until it is cancelled.
type stuck struct{ Source }

func (s stuck) Fetch(ctx context.Context, _ source.Request) (*render.Snapshot, time.Time, error) {
	<-ctx.Done()
	return nil, time.Time{}, ctx.Err()
}

// TestAPlanHasTwoMinutes, including the fetch: a commit without a plan by then fails, and others get their turn.
func TestAPlanHasTwoMinutes(t *testing.T) {
	for name, hang := range map[string]func(*Follower){
		"the fetch": func(f *Follower) { f.Source = stuck{f.Source} },
		"the plan": func(f *Follower) {
			f.make = func(_ *review.Step, ctx context.Context) (*review.Preview, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		},
		"what is not stopped by an error": func(f *Follower) {
			f.make = func(_ *review.Step, ctx context.Context) (*review.Preview, error) {
				<-ctx.Done()
				return &review.Preview{}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, v1alpha1.PullRequests{})
				w.pull(1, "a", "ann", false)
				plan, fetch := w.follower.make, w.follower.Source
				hang(w.follower)
				began := time.Now()
				w.after(10 * time.Second)
				equal(t, "said", []string{"a failure refused: planning takes longer than 2m0s"}, w.said())
				equal(t, "it took", 2*time.Minute, time.Since(began))
				w.follower.make, w.follower.Source = plan, fetch
				w.pull(2, "b", "bob", false)
				w.after(2 * time.Minute)
				equal(t, "said of another", []string{"b success no change", "a failure refused: planning takes longer than 2m0s"}, w.said())
			})
		})
	}
}

// TestAPlanThatTheDaemonsEndStops: a plan that is interrupted by a shutdown reports nothing on the commit.
func TestAPlanThatTheDaemonsEndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, v1alpha1.PullRequests{})
		w.pull(1, "a", "ann", false)
		w.follower.Source = stuck{w.follower.Source}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		w.follower.turn(ctx)
		equal(t, "stopped by", context.DeadlineExceeded, ctx.Err())
		equal(t, "said", nil, w.said())
	})
}

// fleet is a repository with a pool whose weight a policy can check.
var fleet = fstest.MapFS{
	"plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: eu, region: eu-west-1}\nmanagement: External\nnodes: [./nodes]\n")},
	"nodes/class.yaml": {Data: []byte(`apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@v20251002}]
  subnetSelectorTerms: [{id: subnet-1234}]
  securityGroupSelectorTerms: [{id: sg-1234}]
`)},
	"nodes/pool.yaml": {Data: []byte(`apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  weight: 60
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
`)},
}

// planning makes the follower plan as the daemon does, in a cluster without definitions.
func (w *world) planning() {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), cluster.AddToScheme(scheme)); err != nil {
		w.t.Fatal(err)
	}
	objects := installtest.Installed()[:1]
	for _, crd := range applytest.CRDs() {
		objects = append(objects, installtest.Serve(crd.DeepCopy()))
	}
	objects = append(objects, w.sync.DeepCopy())
	objects[len(objects)-1].SetResourceVersion("")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	w.files, w.follower.make = fleet, (*review.Step).Make
	w.follower.Preview = review.Tools{Client: c, Cached: c, Helm: &installtest.Helm{}, Schemas: &schema.Cache{}}
}

// TestAPolicyInAPullRequest: spec.policies apply to the plan of a head as to that of a reconcile, and its status and
// comment have the message.
func TestAPolicyInAPullRequest(t *testing.T) {
	const heavy = "change.kind != 'NodePool' || change.spec.weight <= 50"
	for name, c := range map[string]struct {
		action     v1alpha1.PolicyAction
		expression string
		said       string
		comment    string
	}{
		"allows": {v1alpha1.PolicyDeny, "change.kind != 'NodePool' || change.spec.weight <= 60", "a success 2 objects change, no node is touched; no hold", "2 objects change"},
		"denies": {v1alpha1.PolicyDeny, heavy, "a failure refused: policy light denies NodePool/general: too heavy", "policy light denies NodePool/general: too heavy"},
		"holds":  {v1alpha1.PolicyHold, heavy, "a failure held: NodePool/general (0 nodes)", "held: NodePool/general: policy light: too heavy"},
		"wrong":  {v1alpha1.PolicyDeny, "change.kin != ''", "a failure refused: policy light: ", "undefined field"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, v1alpha1.PullRequests{Comment: true})
			w.change(func(s *v1alpha1.NodeSync) {
				s.Spec.Policies = []v1alpha1.Policy{{Name: "light", Expression: c.expression, Message: "too heavy", Action: c.action}}
			})
			w.planning()
			w.pull(1, "a", "ann", false)
			w.after(time.Minute)
			if said := w.said(); len(said) != 1 || !strings.HasPrefix(said[0], c.said) {
				t.Errorf("said %q, want %q", said, c.said)
			}
			if comments := w.comments[1]; len(comments) != 1 || !strings.Contains(comments[0].Body, c.comment) {
				t.Errorf("comments %v, want %q", comments, c.comment)
			}
		})
	}
}
