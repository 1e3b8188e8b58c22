package preflight

import (
	"testing"

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
		"denied": {func(o *Observed) {
			o.LostNodes = Value[[]LostNode]{Err: denied("ec2:DescribeInstances")}
		}, Unknown, "AWS denies", "", "ec2:DescribeInstances"},
	})
}
