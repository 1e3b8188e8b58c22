package plan_test

import (
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

func selecting(term awsv1.AMISelectorTerm) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{term}}}
}

func named(name string) plan.Resolved[awsv1.AMI] {
	return plan.Resolved[awsv1.AMI]{Found: []awsv1.AMI{{ID: "ami-1", Name: name}}}
}

// TestNextKubernetes: aliases that are not published for it, and kubelets outside of the supported skew.
func TestNextKubernetes(t *testing.T) {
	const eks = "amazon-eks-node-al2023-x86_64-standard-"
	empty := plan.Resolved[awsv1.AMI]{Empty: true, Unavailable: "AWS has no AMI"}
	pinned, byID := awsv1.AMISelectorTerm{Alias: "al2023@v20250904"}, awsv1.AMISelectorTerm{ID: "ami-1"}
	for name, c := range map[string]struct {
		term         awsv1.AMISelectorTerm
		amis, newest plan.Resolved[awsv1.AMI]
		says         string
	}{
		"published":                        {term: pinned, amis: named(eks + "1.37-v20250904"), newest: named(eks + "1.37-v20251002")},
		"not published, others are":        {term: pinned, amis: empty, newest: named(eks + "1.37-v20251002"), says: "AWS publishes no AMI for alias al2023@v20250904 and that version"},
		"nothing is published yet":         {term: pinned, amis: empty, newest: empty},
		"a family that ends":               {term: awsv1.AMISelectorTerm{Alias: "al2@latest"}, amis: plan.Resolved[awsv1.AMI]{Unsupported: true, Unavailable: "AL2 ends"}, says: "Karpenter launches no node with it: AL2 ends"},
		"AWS does not answer":              {term: pinned, amis: plan.Resolved[awsv1.AMI]{Unavailable: "AWS throttles"}, says: "is unknown: AWS throttles"},
		"a kubelet within the skew":        {term: byID, amis: named(eks + "1.34-v20250904")},
		"a kubelet outside of the skew":    {term: byID, amis: named(eks + "1.33-v20250904"), says: "ami-1 has a kubelet of Kubernetes 1.33, which is more than 3 minor versions older than a control plane of 1.37"},
		"a kubelet that is newer":          {term: byID, amis: named(eks + "1.38-v20250904"), says: "which is newer"},
		"an AMI that AWS does not publish": {term: byID, amis: named("golden-image-7")},
		"a malformed alias":                {term: awsv1.AMISelectorTerm{Alias: "al2023"}},
	} {
		t.Run(name, func(t *testing.T) {
			classes := []*awsv1.EC2NodeClass{selecting(c.term)}
			next, current := plan.NextQuestions(classes)
			answers := map[render.Ref]plan.Answer{}
			for _, q := range append(next, current...) {
				if q.Ref.Name == "default" {
					answers[q.Ref] = plan.Answer{AMIs: c.amis}
				} else {
					answers[q.Ref] = plan.Answer{AMIs: c.newest}
				}
			}
			if c.term.Alias == "" != (len(current) == 1) {
				t.Errorf("questions %v, %v", next, current)
			}
			got := strings.Join(plan.NextKubernetes(classes, "1.37", answers), "\n")
			if c.says == "" && got != "" || !strings.Contains(got, c.says) {
				t.Errorf("got %q, want %q", got, c.says)
			}
		})
	}
}
