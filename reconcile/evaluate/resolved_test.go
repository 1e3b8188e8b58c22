package evaluate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

const someClass = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{id: subnet-0001}]
  securityGroupSelectorTerms: [{id: sg-1}]
`

// TestAWSIsAskedForSuchAChangeOnly shows that AWS is queried only for a Plan with a change of selectors, which takes
// the answer into account; if AWS is unavailable and the change is held for that, another reconcile follows soon.
func TestAWSIsAskedForSuchAChangeOnly(t *testing.T) {
	answered := plan.Answer{Subnets: plan.Resolved[string]{Found: []string{"subnet-0002"}}, Running: map[string]plan.Running{
		"aws:///a/i-1": {Subnet: "subnet-0002"}, "aws:///a/i-2": {Subnet: "subnet-0001"},
	}}
	denied := plan.Answer{Subnets: plan.Resolved[string]{Unavailable: "AWS denies ec2:DescribeSubnets"}}
	for name, c := range map[string]struct {
		git    string
		answer *plan.Answer
		action plan.Action
		nodes  int
		asked  int
		wakes  bool
		// policy denies changes to more than one node, and denied reports that it does.
		policy, denied bool
	}{
		"nothing changes":        {git: someClass, answer: &answered},
		"tags":                   {git: someClass + "  tags: {team: a}\n", answer: &answered, action: plan.Hold, nodes: 2},
		"subnets":                {git: strings.Replace(someClass, "subnet-0001", "subnet-0002", 1), answer: &answered, action: plan.Update, nodes: 1, asked: 1},
		"subnets, denied":        {git: strings.Replace(someClass, "subnet-0001", "subnet-0002", 1), answer: &denied, action: plan.Hold, nodes: 2, asked: 1, wakes: true},
		"subnets, a policy":      {git: strings.Replace(someClass, "subnet-0001", "subnet-0002", 1), answer: &answered, action: plan.Update, nodes: 1, asked: 1, policy: true},
		"subnets, denied twice":  {git: strings.Replace(someClass, "subnet-0001", "subnet-0002", 1), answer: &denied, asked: 1, policy: true, denied: true},
		"tags, a policy":         {git: someClass + "  tags: {team: a}\n", answer: &answered, policy: true, denied: true},
		"subnets, nobody to ask": {git: strings.Replace(someClass, "subnet-0001", "subnet-0002", 1), action: plan.Hold, nodes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			one := intstr.FromInt32(1)
			s := planStep(nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Guard.MaxDisruptedNodes = &one }))
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			s.Cached = fake.NewClientBuilder().WithScheme(scheme).Build()
			server := applytest.New(t)
			owner := plan.OwnerOf(namespace, "prod")
			if err := server.ApplyAs(t.Context(), plan.Desired(server.Definition(t, someClass), owner), v1alpha1.FieldManager, true); err != nil {
				t.Fatal(err)
			}
			s.Snapshot = &render.Snapshot{Revision: "main@sha1:2"}
			s.Set = &render.Set{Revision: "main@sha1:2", Objects: []render.Object{server.Definition(t, c.git)}}
			s.Live = plan.Live{Objects: plan.NewObjects(server.Objects()), NodeClaims: []plan.NodeClaim{
				{Name: "1", UID: "1", Pool: "general", Class: "default", ProviderID: "aws:///a/i-1"}, {Name: "2", UID: "2", Pool: "general", Class: "default", ProviderID: "aws:///a/i-2"},
			}}
			var err error
			if s.Schema, err = schema.New(applytest.CRDs()); err != nil {
				t.Fatal(err)
			}
			asked := 0
			if c.answer != nil {
				s.Resolve = func(_ context.Context, questions []plan.Question) map[render.Ref]plan.Answer {
					asked++
					return map[render.Ref]plan.Answer{questions[0].Ref: *c.answer}
				}
			}
			if c.policy {
				s.Sync.Spec.Policies = []v1alpha1.Policy{{Name: "one", Expression: "change.nodes <= 1", Action: v1alpha1.PolicyDeny}}
			}
			made, err := s.Make(t.Context())
			if refused := new(plan.PolicyDeniedError); errors.As(err, &refused) != c.denied || err != nil && !c.denied {
				t.Fatal(err)
			}
			if c.denied {
				if made.Plan != nil || asked != c.asked {
					t.Errorf("asked %d times, want %d, and a plan: %v", asked, c.asked, made.Plan)
				}
				return
			}
			if asked != c.asked || (c.action == "") != (len(made.Changes) == 0) {
				t.Fatalf("asked %d times, want %d: %+v", asked, c.asked, made.Changes)
			}
			if len(made.Changes) > 0 && (made.Changes[0].Action != c.action || made.Changes[0].Nodes != c.nodes) {
				t.Errorf("%s on %d nodes, want %s on %d: %s", made.Changes[0].Action, made.Changes[0].Nodes, c.action, c.nodes, made.Changes[0].Message)
			}
			if wakes := s.WakeAt.Equal(s.Now.Add(time.Minute)); wakes != c.wakes {
				t.Errorf("wakes at %s", s.WakeAt)
			}
		})
	}
}
