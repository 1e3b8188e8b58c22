package preflight

import (
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// registered marks a NodeClaim as registered.
func registered(c *karpv1.NodeClaim) { c.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered) }

func TestBudgets(t *testing.T) {
	of := func(change func(*PoolBudgets)) func(*Observed) {
		return func(o *Observed) { change(&o.PoolBudgets[0]) }
	}
	at := func(after time.Duration) time.Time { return healthy(t).Now.Add(after) }
	expiring := func(after ...time.Duration) func(*Observed) {
		return func(o *Observed) {
			const age = 30 * 24 * time.Hour
			for _, one := range after {
				c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}}}
				c.CreationTimestamp.Time, c.Spec.ExpireAfter.Duration = at(one-age), ptr.To(age)
				registered(&c)
				o.Claims.Of = append(o.Claims.Of, c)
			}
		}
	}
	run(t, "budgets", map[string]looked{
		"no drift":         {of(func(p *PoolBudgets) { p.Allowed["Drifted"] = Allowed{} }), Problem, "allow no disruption for Drifted at any time", "spec.disruption.budgets", ""},
		"no consolidation": {of(func(p *PoolBudgets) { p.Allowed["Underutilized"] = Allowed{} }), Warning, "never consolidated", "", ""},
		"not readable": {
			of(func(p *PoolBudgets) { p.Allowed, p.Unreadable = nil, "expected 5 fields" }), Problem, "cannot be evaluated, so Karpenter disrupts no node: expected 5 fields",
			"correct", "",
		},
		"closed for weeks": {
			of(func(p *PoolBudgets) { p.Allowed["Drifted"] = Allowed{Most: 1, Opens: at(20 * 24 * time.Hour)} }), Warning,
			"allow no disruption for Drifted before Sun 20 Dec 12:00 UTC", "add a window", "",
		},
		"closed until the weekend": {of(func(p *PoolBudgets) { p.Allowed["Drifted"] = Allowed{Most: 1, Opens: at(5 * 24 * time.Hour)} }), OK, "", "", ""},
		"all at once": {
			of(func(p *PoolBudgets) { p.Allowed["Drifted"] = Allowed{Most: 3, All: at(14 * time.Hour)} }), Warning,
			"allow all 3 nodes to be disrupted at a time for Drifted, from Tue 1 Dec 02:00 UTC on", "such as 10%", "",
		},
		"all at once, now": {of(func(p *PoolBudgets) { p.Allowed["Underutilized"] = Allowed{Most: 3, All: at(0)} }), Warning, "for Underutilized, now", "", ""},
		"all empty ones":   {of(func(p *PoolBudgets) { p.Allowed["Empty"] = Allowed{Most: 3, All: at(0)} }), OK, "", "", ""},
		"one node":         {of(func(p *PoolBudgets) { p.Nodes, p.Allowed["Drifted"] = 1, Allowed{Most: 1, All: at(0)} }), OK, "", "", ""},
		"most expire in an hour": {
			expiring(12*time.Hour, 12*time.Hour+5*time.Minute, 12*time.Hour+50*time.Minute, 40*time.Hour), Warning,
			"NodePool/general: 3 of 4 nodes expire between Tue 1 Dec 00:00 UTC and Tue 1 Dec 00:50 UTC", "one at a time", "",
		},
		"they expire apart":  {expiring(2*time.Hour, 6*time.Hour, 12*time.Hour), OK, "", "", ""},
		"they expire later":  {expiring(48*time.Hour, 48*time.Hour, 48*time.Hour), OK, "", "", ""},
		"NodeClaims denied":  {func(o *Observed) { o.Claims.Err = forbidden("nodeclaims") }, Unknown, "the API server denies", "", "nodeclaims.policy"},
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
	killed := func(ago time.Duration) func(*Observed) {
		return func(o *Observed) {
			o.OutOfMemory.Of = []OutOfMemory{{Pod: "kube-system/karpenter-1", At: o.Now.Add(-ago), Restarts: 7}}
		}
	}
	claim := func(age time.Duration, change func(*karpv1.NodeClaim)) func(*Observed) {
		return func(o *Observed) {
			c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "general-1"}}
			c.CreationTimestamp.Time = o.Now.Add(-age)
			if change != nil {
				change(&c)
			}
			o.Claims.Of = []karpv1.NodeClaim{c}
		}
	}
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
		"an insight": {func(o *Observed) {
			o.Insights.Of = append(o.Insights.Of, cloud.Insight{
				ID: "abc", Name: "Kubelet version skew", Category: "UPGRADE_READINESS", Status: "ERROR", Reason: "2 nodes", Kubernetes: "1.37",
			})
		}, Problem, `EKS insight "Kubelet version skew" (UPGRADE_READINESS, Kubernetes 1.37) is ERROR: 2 nodes`, "aws eks describe-insight --region eu-west-1 --cluster-name prod --id abc", ""},
		"an insight that warns": {func(o *Observed) { o.Insights.Of[0].Status = "WARNING" }, Warning, "is WARNING", "", ""},
		"insights denied":       {func(o *Observed) { o.Insights.Err = denied("eks:ListInsights") }, Unknown, "AWS denies", "", "eks:ListInsights"},
		"no leader":             {func(o *Observed) { o.Idle.Of = "no pod of Karpenter's controller holds its lease" }, Problem, "holds its lease: no node is launched", "kubectl rollout restart deployment karpenter -n kube-system", ""},
		"no replicas":           {func(o *Observed) { o.Controllers.Of[0].Replicas = 0 }, Problem, "has no replicas", "--replicas=2", ""},
		"the lease denied":      {func(o *Observed) { o.Idle.Err = forbidden("leases") }, Unknown, "the API server denies", "", "leases.policy"},
		"out of memory":         {killed(time.Hour), Warning, "pod kube-system/karpenter-1 of Karpenter's controller ran out of memory at 2026-11-30T11:00:00Z (7 restarts)", "controller.resources", ""},
		"out of memory before":  {killed(48 * time.Hour), OK, "", "", ""},
		"a NodeClaim is stuck":  {claim(25*time.Minute, nil), Problem, "NodeClaims have no node after 20m0s: general-1", "kubectl rollout restart", ""},
		"a young NodeClaim":     {claim(5*time.Minute, nil), OK, "", "", ""},
		"a NodeClaim with node": {claim(25*time.Minute, registered), OK, "", "", ""},
		"no version":            {func(o *Observed) { o.Version = "" }, Unknown, "the version of Karpenter is unknown", "--version", ""},
		"a fork":                {func(o *Observed) { o.Version = "1.15.0-acme.1" }, Unknown, "", "", ""},
		"denied":                {func(o *Observed) { o.Addons = Value[[]cloud.Addon]{Err: denied("eks:ListAddons")} }, Unknown, "AWS denies", "", "eks:ListAddons"},
	})
}
