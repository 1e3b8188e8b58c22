package preflight

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
)

func TestLeftovers(t *testing.T) {
	run(t, "leftovers", map[string]looked{
		"a Node": {
			func(o *Observed) { o.LostNodes.Of = []LostNode{{"ip-10-0-0-1", "aws:///eu-west-1a/i-1"}} }, Problem,
			"Node/ip-10-0-0-1 has no instance: aws:///eu-west-1a/i-1", "kubectl delete node ip-10-0-0-1", "",
		},
		"a launch template": {func(o *Observed) {
			o.Left.Of = []leftover.Found{{Resource: cloud.Resource{Kind: cloud.KindLaunchTemplate, ID: "lt-1"}, What: "EC2NodeClass/old"}}
		}, Warning, "launch template lt-1 (EC2NodeClass/old) is left over", "no other cluster has or had the name prod", ""},
		"an instance": {
			func(o *Observed) { o.LostInstances = []string{"i-2"} }, Problem, "instance i-2 has no NodeClaim",
			"no other cluster has the name prod, then: aws ec2 terminate-instances --region eu-west-1 --instance-ids i-2", "",
		},
		"an instance in a conflict": {
			func(o *Observed) { o.LostInstances, o.Conflict = []string{"i-2"}, true }, Problem, "instance i-2 has no NodeClaim here, while the identity conflict is open",
			"resolve the identity conflict first: plumbline identity", "",
		},
		"protected in a conflict": {
			func(o *Observed) { o.Protected, o.Conflict = []string{"i-3"}, true }, Warning,
			"plumbline protects instance i-3 from termination while the identity conflict is open",
			"if plumbline does not run: aws ec2 modify-instance-attribute --region eu-west-1 --instance-id i-3 --no-disable-api-termination", "",
		},
		"protected after a conflict": {
			func(o *Observed) { o.Protected = []string{"i-3"} }, Problem, "instance i-3 is still protected from termination",
			"aws ec2 modify-instance-attribute --region eu-west-1 --instance-id i-3", "",
		},
		"volumes denied": {func(o *Observed) { o.Left.Err = denied("ec2:DescribeVolumes") }, Unknown, "AWS denies", "", "ec2:DescribeVolumes"},
		"denied": {func(o *Observed) {
			o.LostNodes = Value[[]LostNode]{Err: denied("ec2:DescribeInstances")}
		}, Unknown, "AWS denies", "", "ec2:DescribeInstances"},
	})
}

func TestUnclaimed(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	of := func(id, state, pool string, age time.Duration) cloud.Instance {
		return cloud.Instance{ID: id, Zone: "eu-west-1a", State: state, Pool: pool, Launched: now.Add(-age)}
	}
	claimed := karpv1.NodeClaim{}
	claimed.Status.ProviderID = "aws:///eu-west-1a/i-claimed"
	got := unclaimed([]cloud.Instance{
		of("i-claimed", "running", "general", time.Hour), of("i-lost", "running", "general", time.Hour), of("i-young", "running", "general", time.Minute),
		of("i-ending", "shutting-down", "general", time.Hour), of("i-group", "running", "", time.Hour),
	}, []karpv1.NodeClaim{claimed}, now)
	if diff := cmp.Diff([]string{"i-lost"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
