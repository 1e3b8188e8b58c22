package preflight

import (
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

func TestBudgets(t *testing.T) {
	of := func(change func(*PoolBudgets)) func(*Observed) {
		return func(o *Observed) { change(&o.PoolBudgets[0]) }
	}
	run(t, "budgets", map[string]looked{
		"no drift":         {of(func(p *PoolBudgets) { p.Most["Drifted"] = 0 }), Problem, "allow no disruption for Drifted at any time", "spec.disruption.budgets", ""},
		"no consolidation": {of(func(p *PoolBudgets) { p.Most["Underutilized"] = 0 }), Warning, "never consolidated", "", ""},
		"not readable": {
			of(func(p *PoolBudgets) { p.Most, p.Unreadable = nil, "expected 5 fields" }), Problem, "cannot be evaluated, so Karpenter disrupts no node: expected 5 fields",
			"correct", "",
		},
		"expires at once":    {of(func(p *PoolBudgets) { p.Expires = 10 * time.Minute }), Problem, "expireAfter 10m0s", "a week or longer", ""},
		"expires often":      {of(func(p *PoolBudgets) { p.Expires = 6 * time.Hour }), Warning, "at least once a day", "", ""},
		"expires in a month": {of(func(p *PoolBudgets) { p.Expires = 720 * time.Hour }), OK, "", "", ""},
		"denied":             {func(o *Observed) { o.Pools = Value[[]karpv1.NodePool]{Err: forbidden("nodepools")} }, Unknown, "the API server denies", "", "nodepools.policy"},
	})
}

func TestImages(t *testing.T) {
	of := func(change func(*ClassImages)) func(*Observed) { return func(o *Observed) { change(&o.Images[0]) } }
	empty := Value[[]awsv1.AMI]{Err: &resolve.EmptyError{What: "AMI", Field: "spec.amiSelectorTerms", Class: "default"}}
	run(t, "images", map[string]looked{
		"no AMI":            {of(func(c *ClassImages) { c.Now = empty }), Problem, "EC2NodeClass/default has no AMI for Kubernetes 1.36", "spec.amiSelectorTerms", ""},
		"none for the next": {of(func(c *ClassImages) { c.Later = empty }), Warning, "has no AMI for Kubernetes 1.37", "before the control plane is upgraded", ""},
		"not supported": {of(func(c *ClassImages) {
			c.Later = Value[[]awsv1.AMI]{Err: &resolve.UnsupportedError{Class: "default"}}
		}), Warning, "1.37", "", ""},
		"deprecated": {of(func(c *ClassImages) { c.Now.Of[0].Deprecated = true }), Warning, "AMI ami-1 (al2023) of EC2NodeClass/default is deprecated", "", ""},
		"not pinned": {func(o *Observed) {
			o.Classes.Of[0].Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
		}, Warning, "is not pinned", "al2023@v", ""},
		"pinned": {func(o *Observed) {
			o.Classes.Of[0].Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@v20251002"}}
		}, OK, "", "", ""},
		"another architecture": {func(o *Observed) { o.Pools.Of[0] = pool("arm", "arm64") }, Problem, "NodePool/arm allows arm64, for which EC2NodeClass/default has no AMI", "arm64", ""},
		"denied": {of(func(c *ClassImages) {
			c.Now = Value[[]awsv1.AMI]{Err: denied("ssm:GetParameter")}
		}), Unknown, "AWS denies", "", "ssm:GetParameter"},
	})
}

func TestLaunchValidation(t *testing.T) {
	failed := func(refusal *cloud.Refusal, err error) func(*Observed) {
		return func(o *Observed) {
			o.Conditions = []ClassCondition{{
				Class: "default", Type: "ValidationSucceeded", Reason: "RunInstancesAuthCheckFailed",
				Message: "Controller isn't authorized to call ec2:RunInstances. Encoded authorization failure message: abc",
				Refusal: Value[*cloud.Refusal]{Of: refusal, Err: err},
			}}
		}
	}
	run(t, "launch-validation", map[string]looked{
		"a condition": {failed(nil, nil), Problem, "ValidationSucceeded is False (RunInstancesAuthCheckFailed): Controller isn't authorized to call ec2:RunInstances.", "kubectl describe ec2nodeclass default", ""},
		"an SCP": {
			failed(&cloud.Refusal{Action: "ec2:RunInstances", Resource: "arn:volume", Principal: "arn:role", Explicit: true}, nil), Problem,
			"AWS denies ec2:RunInstances on arn:volume to arn:role explicitly", "service control policies", "",
		},
		"a permission":  {failed(&cloud.Refusal{Action: "ec2:RunInstances", Resource: "arn:volume"}, nil), Problem, "AWS denies ec2:RunInstances", "allow ec2:RunInstances on arn:volume", ""},
		"not decoded":   {failed(nil, denied("sts:DecodeAuthorizationMessage")), Problem, "RunInstancesAuthCheckFailed", "", ""},
		"nothing known": {func(o *Observed) { o.Classes = Value[[]awsv1.EC2NodeClass]{Err: forbidden("ec2nodeclasses")} }, Unknown, "the API server denies", "", "ec2nodeclasses.policy"},
	})
}

func TestDaemonSets(t *testing.T) {
	run(t, "daemonsets", map[string]looked{
		"no toleration": {func(o *Observed) {
			o.DaemonSets.Of[0] = NodeDaemonSet{Name: "DaemonSet kube-system/ebs-csi-node", Patch: "kubectl patch daemonset ebs-csi-node"}
		}, Problem, "does not tolerate karpenter.sh/disrupted", "kubectl patch daemonset ebs-csi-node", ""},
		"denied": {func(o *Observed) { o.DaemonSets = Value[[]NodeDaemonSet]{Err: forbidden("daemonsets")} }, Unknown, "the API server denies", "", "daemonsets.policy"},
	})
}

func TestSupport(t *testing.T) {
	run(t, "support", map[string]looked{
		"out of support": {func(o *Observed) { o.Version, o.EKS.Of.Version = "1.8.6", "1.33" }, Problem, "has been out of support since", "plumbline upgrade", ""},
		"Kubernetes":     {func(o *Observed) { o.EKS.Of.Version = "1.99" }, Problem, "1.99", "plumbline upgrade", ""},
		"a defect": {func(o *Observed) {
			o.Version, o.Now = "1.14.1", time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
			o.Pools.Err = forbidden("x")
		}, Unknown, "the API server denies", "", "x.policy"},
		"a known defect": {func(o *Observed) {
			replicas := int64(1)
			o.Pools.Of[0].Spec.Replicas = &replicas
			o.Version, o.Now = "1.14.1", time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
		}, Warning, "a launch of a static NodePool", "plumbline upgrade", ""},
		"an add-on": {
			func(o *Observed) {
				o.Addons.Of[0].Status, o.Addons.Of[0].Issues = "DEGRADED", []string{"InsufficientNumberOfReplicas: none"}
			}, Problem,
			"EKS add-on coredns v1 is DEGRADED: InsufficientNumberOfReplicas", "aws eks describe-addon --region eu-west-1", "",
		},
		"no version": {func(o *Observed) { o.Version = "" }, Unknown, "the version of Karpenter is unknown", "--version", ""},
		"a fork":     {func(o *Observed) { o.Version = "1.15.0-acme.1" }, Unknown, "", "", ""},
		"denied":     {func(o *Observed) { o.Addons = Value[[]cloud.Addon]{Err: denied("eks:ListAddons")} }, Unknown, "AWS denies", "", "eks:ListAddons"},
	})
}
