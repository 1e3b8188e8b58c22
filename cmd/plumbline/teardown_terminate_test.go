package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// leftByKarpenter is a cluster whose NodeSync never goes, with a node of its own in some conditions, and with a node
// of another pool that is drained.
func leftByKarpenter(t *testing.T, conditions ...string) (*apiServer, string, []byte) {
	t.Helper()
	s, _, _ := tornDown(t)
	for path := range s.objects {
		if strings.Contains(path, "/nodeclaims/") {
			delete(s.objects, path)
		}
	}
	for name, pool := range map[string]string{"0a1": "general", "0b2": "other"} {
		var list []any
		for _, condition := range conditions {
			kind, is, _ := strings.Cut(condition, "=")
			list = append(list, map[string]any{"type": kind, "status": is, "lastTransitionTime": "2026-11-25T10:00:00Z"})
		}
		s.objects["/apis/karpenter.sh/v1/nodeclaims/"+name] = map[string]any{
			"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
			"metadata": map[string]any{"name": name, "deletionTimestamp": "2026-11-25T10:00:00Z", "labels": map[string]any{"karpenter.sh/nodepool": pool}},
			"status":   map[string]any{"nodeName": "node-" + name, "providerID": "aws:///eu-west-1a/i-" + name, "conditions": list},
		}
	}
	s.deleted = func(s *apiServer, at string) {
		s.objects[at].(*v1alpha1.NodeSync).DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	kubeconfig, authority := overTLS(t, s)
	return s, kubeconfig, authority
}

// instances are those of a pool of the cluster, each with more tags.
func instances(tags map[string]string, ids ...string) []cloud.Answer {
	answer := cloud.Answer{Kind: cloud.KindInstance}
	for _, id := range ids {
		all := map[string]string{"kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": map[string]string{"i-0a1": "general", "i-0b2": "other"}[id]}
		for key, value := range tags {
			all[key] = value
		}
		answer.Resources = append(answer.Resources, cloud.Resource{Kind: cloud.KindInstance, ID: id, State: "running", Tags: all})
	}
	return []cloud.Answer{answer}
}

// TestTeardownTerminates: what Karpenter has left for a while ends, of this NodeSync only, and what is left then is
// named with what to do.
func TestTeardownTerminates(t *testing.T) {
	drained := []string{"Drained=True", "VolumesDetached=True"}
	both := instances(nil, "i-0a1", "i-0b2")
	const left = "left in AWS: nothing; left in the cluster: NodeClaim/0a1, EC2NodeClass/default, NodePool/batch, NodePool/general, NodeSync/prod. "
	cases := map[string]struct {
		conditions []string
		aws        []cloud.Answer
		prepare    func(s *apiServer)
		args       []string
		failed     error
		asked      []string
		code       int
		says       string
	}{
		"drained and left":          {drained, both, nil, []string{"--terminate"}, nil, []string{"i-0a1"}, exitStalled, left},
		"without the flag":          {drained, both, nil, nil, nil, nil, exitStalled, "nodesync/prod is not gone after 300ms"},
		"its pods are evicted":      {[]string{"Drained=Unknown"}, both, nil, []string{"--terminate"}, nil, nil, exitStalled, "nodesync/prod is not gone after 300ms"},
		"a tag of another cluster":  {drained, instances(map[string]string{"kubernetes.io/cluster/stage": "shared"}, "i-0a1"), nil, []string{"--terminate"}, nil, nil, exitStalled, "instance i-0a1 stays: it has a tag of cluster stage, too"},
		"denied":                    {drained, both, nil, []string{"--terminate"}, &cloud.DeniedError{Action: "ec2:TerminateInstances"}, []string{"i-0a1"}, exitFailed, "allow ec2:TerminateInstances to the credentials in use, as manifests/iam-policy-teardown.json does"},
		"ended by an earlier run":   {drained, instances(nil, "i-0b2"), nil, []string{"--terminate"}, nil, nil, exitStalled, left},
		"with a sweep":              {[]string{"Drained=Unknown"}, both, nil, []string{"--terminate", "--sweep"}, nil, nil, exitStalled, "nodesync/prod is not gone"},
		"a controller that is down": {[]string{"Drained=Unknown"}, both, func(s *apiServer) { s.objects[controllerPath].(map[string]any)["status"] = nil }, []string{"--terminate"}, nil, []string{"i-0a1"}, exitStalled, "instance i-0a1 of Node/node-0a1 is not drained: Karpenter's controller does not run"},
		"no controller, no daemon": {[]string{"Drained=Unknown"}, both, func(s *apiServer) {
			delete(s.objects, controllerPath)
			s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).Status.Karpenter.Management = "External"
		}, []string{"--terminate"}, nil, []string{"i-0a1"}, exitStalled, left},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, authority := leftByKarpenter(t, c.conditions...)
			if c.prepare != nil {
				c.prepare(s)
			}
			aws, by := awsAnswers(c.aws, c.aws, c.aws, instances(nil, "i-0b2")), &endingAWS{}
			if c.failed != nil {
				by.failed = map[string]error{"i-0a1": c.failed}
			}
			aws.eks, aws.authority = map[string]error{"demo": nil}, authority
			v := verification{dial: aws.dial, dialEnder: by.dial, now: time.Now, pause: time.Millisecond, strandedAfter: 20 * time.Millisecond}
			timeout := "1m"
			if strings.Contains(c.says, "is not gone") {
				timeout = "300ms"
			}
			got := teardownAsking(t.Context(), t, nil, v, append([]string{"prod", "--yes", "--timeout", timeout, "--kubeconfig", kubeconfig}, c.args...)...)
			if got.code != c.code || !slices.Equal(c.asked, by.asked) || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, want %d; ends %v, want %v; says %s\nwant %q in it", got.code, c.code, by.asked, c.asked, got.err, c.says)
			}
		})
	}
}

// TestTeardownTerminatesAnothers: where EKS has another cluster of the name, nothing is ended.
func TestTeardownTerminatesAnothers(t *testing.T) {
	_, kubeconfig, _ := leftByKarpenter(t, "Drained=True", "VolumesDetached=True")
	aws, by := awsAnswers(instances(nil, "i-0a1")), &endingAWS{failed: map[string]error{"i-0a1": errors.New("not asked for")}}
	aws.eks, aws.authority = map[string]error{"demo": nil}, []byte(otherAuthority)
	v := verification{dial: aws.dial, dialEnder: by.dial, now: time.Now, pause: time.Millisecond}
	got := teardownAsking(t.Context(), t, nil, v, "prod", "--yes", "--terminate", "--account", "111122223333", "--timeout", "300ms", "--kubeconfig", kubeconfig)
	if got.code != exitFailed || len(by.asked) > 0 || !strings.Contains(got.err, "has another certificate authority") {
		t.Errorf("code %d, ends %v: %s", got.code, by.asked, got.err)
	}
}

// TestNothingEndsWhileTheClusterIsSilent: what stays is read again once it answers, until the time is over.
func TestNothingEndsWhileTheClusterIsSilent(t *testing.T) {
	by := &endingAWS{}
	run := &endRun{by: by, shown: map[string]bool{"i-0a1": true}, renew: func(context.Context) error { return fmt.Errorf("list Nodes: %w", errUnreachable) }}
	left, denied, err := (&teardown{}).endPass(t.Context(), nil, run)
	if !left || denied || err != nil || len(by.asked) > 0 {
		t.Errorf("left %t, denied %t, error %v, ends %v", left, denied, err, by.asked)
	}
}
