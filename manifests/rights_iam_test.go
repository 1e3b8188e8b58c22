package manifests

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/iam"
)

// TestTheAWSPoliciesReachOneCluster: evaluated like IAM does, plumbline's policies allow nothing that changes another
// cluster's instances, and the daemon's reads attributes of its own cluster's only.
func TestTheAWSPoliciesReachOneCluster(t *testing.T) {
	c := iam.Cluster{Name: "prod", Region: "eu-west-1", Account: "111122223333"}
	policies := map[string]string{"daemon": DaemonPolicy, "verify": VerifyPolicy, "teardown": TeardownPolicy, "migrate": MigratePolicy}
	allowed := func(name, action, cluster string) iam.Decision {
		t.Helper()
		filled, err := iam.Plumbline(c, iam.Template{Prefix: "x-", Text: policies[name]})
		if err != nil {
			t.Fatal(err)
		}
		request := iam.Request{Action: action, Resource: "arn:aws:ec2:eu-west-1:111122223333:instance/i-1", Region: c.Region}
		request.ResourceTags = map[string]string{"kubernetes.io/cluster/" + cluster: "owned", "eks:eks-cluster-name": cluster, "karpenter.sh/nodepool": "a"}
		if strings.HasPrefix(action, "eks:") {
			request.Resource = "arn:aws:eks:eu-west-1:111122223333:cluster/" + cluster
		}
		return iam.Evaluate([]iam.Document{filled[0].Document}, request).Decision
	}
	for action, of := range map[string][]string{
		"ec2:TerminateInstances": {"teardown"}, "ec2:DescribeInstanceAttribute": {"daemon"}, "eks:DescribeCluster": {"daemon", "verify", "migrate"},
	} {
		for name := range policies {
			want := iam.Denied
			for _, one := range of {
				if one == name {
					want = iam.Allowed
				}
			}
			if got := allowed(name, action, "prod"); got != want {
				t.Errorf("%s: %s of the cluster: %s, want %s", name, action, got, want)
			}
			if got := allowed(name, action, "other"); got != iam.Denied {
				t.Errorf("%s: %s of another cluster: %s", name, action, got)
			}
		}
	}
}
