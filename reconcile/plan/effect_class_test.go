package plan_test

import (
	"fmt"
	"strings"
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

func amiOf(id, arch string) awsv1.AMI {
	return awsv1.AMI{ID: id, Requirements: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/arch", Operator: "In", Values: []string{arch}}}}
}

// withSelectors returns the class with other selectors.
func withSelectors(fields ...string) string {
	text := class("default")
	for _, f := range fields {
		switch name, terms, _ := strings.Cut(f, " "); name {
		case "ami":
			text = strings.Replace(text, "alias: al2023@latest", "alias: "+terms, 1)
		case "subnet":
			text = strings.Replace(text, "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]", "subnetSelectorTerms: [{id: "+terms+"}]", 1)
		case "group":
			text = strings.Replace(text, "securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]", "securityGroupSelectorTerms: [{id: "+terms+"}]", 1)
		case "reservation":
			text += "  capacityReservationSelectorTerms: [{id: " + terms + "}]\n"
		}
	}
	return text
}

// resolvedWorld returns two amd64 instances and one arm64 instance, each with its own subnet and groups.
func resolvedWorld(t *testing.T) (*drawnCluster, plan.Answer) {
	c := newCluster(t)
	c.have(t, owner, class("default"))
	all := intstr.FromString("100%")
	c.policy.Guard.MaxDisruptedNodes = &all
	running := map[string]plan.Running{}
	for i, arch := range []string{"amd64", "amd64", "arm64"} {
		name := fmt.Sprint(i + 1)
		c.live.NodeClaims = append(c.live.NodeClaims, plan.NodeClaim{
			Name: name, UID: types.UID(name), Pool: "general", Class: "default", Image: "ami-" + arch + "-old", ProviderID: "aws:///a/i-" + name,
			Labels: plan.PackLabels(map[string]string{"kubernetes.io/arch": arch}),
		})
		running["aws:///a/i-"+name] = plan.Running{Subnet: "subnet-000" + name, SecurityGroups: []string{"sg-1", "sg-2"}}
	}
	c.live.NodeClaims[2].Image = "ami-arm64-new"
	running["aws:///a/i-3"] = plan.Running{Subnet: "subnet-0003", SecurityGroups: []string{"sg-2", "sg-1"}, Reservation: "cr-1"}
	return c, plan.Answer{
		AMIs:           plan.Resolved[awsv1.AMI]{Found: []awsv1.AMI{amiOf("ami-amd64-new", "amd64"), amiOf("ami-arm64-new", "arm64")}},
		SecurityGroups: plan.Resolved[string]{Found: []string{"sg-1", "sg-2"}},
		Subnets:        plan.Resolved[string]{Found: []string{"subnet-0001", "subnet-0003"}},
		Running:        running,
	}
}

// TestWhatAWSSaysMakesAnEffectExact: with resolved selectors, a change affects exactly the NodeClaims that drift by it;
// without an answer of AWS, all that may.
func TestWhatAWSSaysMakesAnEffectExact(t *testing.T) {
	denied := "AWS denies ec2:DescribeSubnets"
	for name, test := range map[string]struct {
		git    string
		change func(*drawnCluster, *plan.Answer)
		want   string
	}{
		"other AMIs": {git: withSelectors("ami al2023@v20250904"), want: "Replace [1 2] exact AMIDrift"},
		"the same AMIs": {git: withSelectors("ami al2023@v20250904"), change: func(c *drawnCluster, _ *plan.Answer) {
			c.live.NodeClaims[0].Image, c.live.NodeClaims[1].Image = "ami-amd64-new", "ami-amd64-new"
		}, want: "None [] exact"},
		"one that is not there": {git: withSelectors("ami al2023@v20250904"), change: func(c *drawnCluster, _ *plan.Answer) { c.live.NodeClaims[2].Image = "" }, want: "Replace [1 2 3] up to AMIDrift: 1 NodeClaim: not launched yet"},
		"a subnet less":         {git: withSelectors("subnet subnet-0001"), want: "Replace [2] exact SubnetDrift"},
		"the same groups":       {git: withSelectors("group sg-1"), want: "None [] exact"},
		"a group less":          {git: withSelectors("group sg-1"), change: func(_ *drawnCluster, a *plan.Answer) { a.SecurityGroups.Found = []string{"sg-1"} }, want: "Replace [1 2 3] exact SecurityGroupDrift"},
		"no reservation":        {git: withSelectors("reservation cr-0000000000000000a"), want: "Replace [3] exact CapacityReservationDrift"},
		"AMIs and subnets":      {git: withSelectors("ami al2023@v20250904", "subnet subnet-0001"), want: "Replace [1 2] exact AMIDrift"},
		"subnets denied":        {git: withSelectors("subnet subnet-0001"), change: func(_ *drawnCluster, a *plan.Answer) { a.Subnets = plan.Resolved[string]{Unavailable: denied} }, want: "Replace [1 2 3] up to SubnetDrift: " + denied},
		"AMIs, subnets denied":  {git: withSelectors("ami al2023@v20250904", "subnet subnet-0001"), change: func(_ *drawnCluster, a *plan.Answer) { a.Subnets = plan.Resolved[string]{Unavailable: denied} }, want: "Replace [1 2 3] up to AMIDrift SubnetDrift: " + denied},
		"an instance not shown": {git: withSelectors("subnet subnet-0001"), change: func(_ *drawnCluster, a *plan.Answer) { delete(a.Running, "aws:///a/i-1") }, want: "Replace [1 2] up to SubnetDrift: 1 NodeClaim: not found in EC2"},
		"instances denied": {git: withSelectors("subnet subnet-0001"), change: func(_ *drawnCluster, a *plan.Answer) {
			a.Running, a.Unavailable = nil, "AWS denies ec2:DescribeInstances"
		}, want: "Replace [1 2 3] up to SubnetDrift: AWS denies ec2:DescribeInstances"},
		"what is in the hash":    {git: class("default", "userData: hello"), want: "Replace [1 2 3] exact NodeClassDrift"},
		"AWS was not asked":      {git: withSelectors("subnet subnet-0001"), change: func(c *drawnCluster, _ *plan.Answer) { c.policy.Answers = nil }, want: "Replace [1 2 3] up to SubnetDrift: AWS was not queried"},
		"how to have it asked":   {git: withSelectors("subnet subnet-0001"), change: func(c *drawnCluster, _ *plan.Answer) { c.policy.Answers, c.policy.NotAsked = nil, "use --aws" }, want: "Replace [1 2 3] up to SubnetDrift: use --aws"},
		"a class that none uses": {git: withSelectors("subnet subnet-0001"), change: func(c *drawnCluster, _ *plan.Answer) { c.live.NodeClaims = nil }, want: "None [] exact"},
	} {
		t.Run(name, func(t *testing.T) {
			c, answer := resolvedWorld(t)
			c.policy.Answers = map[render.Ref]plan.Answer{}
			if test.change != nil {
				test.change(c, &answer)
			}
			if c.policy.Answers != nil {
				c.policy.Answers[render.Ref{Kind: render.EC2NodeClass, Name: "default"}] = answer
			}
			changes := c.plan(t, test.git).Changes
			if len(changes) != 1 {
				t.Fatalf("%+v", changes)
			}
			if diff := cmp.Diff(test.want, nodesOf(&changes[0])); diff != "" {
				t.Errorf("effect (-want +got):\n%s", diff)
			}
		})
	}
}

// nodesOf formats what a Change does, the affected NodeClaims, the reasons, and why that is not exact.
func nodesOf(c *plan.Change) string {
	words := fmt.Sprintf("%s %v", c.Effect, c.NodeClaims())
	if c.UpTo {
		words += " up to"
	} else {
		words += " exact"
	}
	for _, reason := range c.DriftReasons {
		words += " " + reason
	}
	if c.Unavailable != "" {
		words += ": " + c.Unavailable
	}
	return words
}

// TestQuestions: AWS is only queried for what has changed, and for nodes that nothing else replaces.
func TestQuestions(t *testing.T) {
	for name, test := range map[string]struct{ git, want string }{
		"nothing":              {class("default"), ""},
		"user data":            {class("default", "userData: hello"), ""},
		"AMIs":                 {withSelectors("ami al2023@v20250904"), "EC2NodeClass/default amis 3"},
		"a family in the hash": {withSelectors("ami bottlerocket@latest"), "EC2NodeClass/default amis 0"},
		"subnets":              {withSelectors("subnet subnet-0001"), "EC2NodeClass/default subnets 3"},
		"groups":               {withSelectors("group sg-1"), "EC2NodeClass/default groups 3"},
		"reservations":         {withSelectors("reservation cr-0000000000000000a"), "EC2NodeClass/default reservations 3"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := resolvedWorld(t)
			var got []string
			for _, q := range c.plan(t, test.git).Questions() {
				words := q.Ref.String()
				for word, asked := range map[string]bool{" amis": q.AMIs, " subnets": q.Subnets, " groups": q.SecurityGroups, " reservations": q.Reservations} {
					if asked {
						words += word
					}
				}
				if q.OfInstances() == q.AMIs {
					t.Errorf("instances are asked for: %v", q.OfInstances())
				}
				got = append(got, fmt.Sprintf("%s %d", words, len(q.Claims)))
			}
			if strings.Join(got, "; ") != test.want {
				t.Errorf("asks %q, want %q", got, test.want)
			}
		})
	}
}
