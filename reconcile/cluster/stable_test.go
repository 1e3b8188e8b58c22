package cluster_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// TestStable: two attempts at the same request give the same message, which still contains the cause.
func TestStable(t *testing.T) {
	const udp = `getting instance profile, operation error IAM: GetInstanceProfile, exceeded maximum number of attempts, 3, https response error StatusCode: 0, RequestID: , request send failed, Post "https://iam.amazonaws.com/": dial tcp: lookup iam.amazonaws.com on 10.100.0.10:53: `
	const post = `operation error EC2: DescribeSubnets, request send failed, Post "https://ec2.eu-west-1.amazonaws.com/": `
	for name, c := range map[string]struct {
		attempts []string
		want     string
	}{
		"a port of the resolver": {
			[]string{udp + "read udp 10.0.1.5:43122->10.100.0.10:53: i/o timeout", udp + "read udp 10.0.1.5:51200->10.100.0.10:53: i/o timeout"},
			`getting instance profile, operation error IAM: GetInstanceProfile, exceeded maximum number of attempts, 3, request send failed, Post "https://iam.amazonaws.com/": dial tcp: lookup iam.amazonaws.com on 10.100.0.10:53: read udp: i/o timeout`,
		},
		"an address of the endpoint": {
			[]string{post + "dial tcp 52.1.2.3:443: connect: connection refused", post + "dial tcp [2a05:d018::1]:443: connect: connection refused"},
			post + "dial tcp: connect: connection refused",
		},
		"a port of a connection": {
			[]string{post + "read tcp 10.0.0.1:43122->52.1.2.3:443: read: connection reset by peer", post + "read tcp 10.0.0.1:43123->52.1.2.4:443: read: connection reset by peer"},
			post + "read tcp: read: connection reset by peer",
		},
		"the ID of a request": {
			[]string{"AccessDenied: no\n\tstatus code: 403, request id: 6f8e1a3c-0000-4000-8000-00000000000a", "AccessDenied: no status code: 403, request id: AB12"},
			"AccessDenied: no status code: 403",
		},
		"a duration": {
			[]string{"timed out after 30.001s, retry quota exceeded, 0 available, 5 requested", "timed out after 1m30s, retry quota exceeded, 3 available, 5 requested"},
			"timed out after …, retry quota exceeded",
		},
		"a time": {
			[]string{"x509: certificate has expired or is not yet valid: current time 2026-03-01T12:00:00Z is after 2026-01-01T00:00:00Z", "x509: certificate has expired or is not yet valid: current time 2026-03-01T12:00:30Z is after 2026-01-01T00:00:00Z"},
			"x509: certificate has expired or is not yet valid: current time … is after …",
		},
		"a session of a role": {
			[]string{"User: arn:aws:sts::1:assumed-role/karpenter/1772366400000000000 is not authorized to perform: iam:GetRole. Encoded authorization failure message: x8s", "User: arn:aws:sts::1:assumed-role/karpenter/1772366430000000000 is not authorized to perform: iam:GetRole."},
			"User: arn:aws:sts::1:assumed-role/karpenter is not authorized to perform: iam:GetRole.",
		},
		"nothing differs": {
			[]string{"invalid UserData\n  toml: expected character = in m5.large for 10.0.0.0/16"},
			"invalid UserData toml: expected character = in m5.large for 10.0.0.0/16",
		},
	} {
		for _, attempt := range c.attempts {
			if got := cluster.Stable(attempt); got != c.want {
				t.Errorf("%s: %q\nwant %q", name, got, c.want)
			}
		}
	}
}
