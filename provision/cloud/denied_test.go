package cloud

import "testing"

// The sentences are those of AWS's own guide to access denied errors.
func TestDenied(t *testing.T) {
	cases := map[string]struct{ action, message, want string }{
		"no policy allows it": {
			action:  "eks:DescribeCluster",
			message: "User: arn:aws:sts::111122223333:assumed-role/plumbline/x is not authorized to perform: eks:DescribeCluster on resource: arn:aws:eks:eu-west-1:111122223333:cluster/demo because no identity-based policy allows the eks:DescribeCluster action",
			want:    `AWS denies eks:DescribeCluster: User: arn:aws:sts::111122223333:assumed-role/plumbline/x is not authorized to perform: eks:DescribeCluster on resource: arn:aws:eks:eu-west-1:111122223333:cluster/demo because no identity-based policy allows the eks:DescribeCluster action; add {"Effect":"Allow","Action":"eks:DescribeCluster","Resource":"arn:aws:eks:eu-west-1:111122223333:cluster/demo"} to the policy of the role in use (plumbline's: manifests/iam-policy.json)`,
		},
		"EC2 names no resource": {
			action:  "ec2:DescribeInstances",
			message: "You are not authorized to perform this operation. Encoded authorization failure message: 8sdf7sd",
			want:    `AWS denies ec2:DescribeInstances: You are not authorized to perform this operation; add {"Effect":"Allow","Action":"ec2:DescribeInstances","Resource":"*"} to the policy of the role in use (plumbline's: manifests/iam-policy.json)`,
		},
		"a policy of the organization forbids it": {
			action:  "ec2:DescribeInstances",
			message: "User: a is not authorized to perform: ec2:DescribeInstances with an explicit deny in a service control policy",
			want:    `AWS denies ec2:DescribeInstances: User: a is not authorized to perform: ec2:DescribeInstances with an explicit deny in a service control policy; a policy forbids it to the role in use: take ec2:DescribeInstances on * out of its Deny`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := denied(c.action, c.message, nil).Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
