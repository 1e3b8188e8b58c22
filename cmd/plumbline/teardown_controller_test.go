package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// logsError makes the controller run, with a log that ends with an error from some time ago.
func logsError(s *apiServer, ago time.Duration, words string) {
	const pod = "/api/v1/namespaces/kube-system/pods/karpenter-a"
	s.objects[pod] = map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "karpenter-a", "namespace": "kube-system", "labels": map[string]any{"app.kubernetes.io/name": "karpenter"}},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}
	s.texts = map[string]string{pod + "/log": `{"level":"ERROR","time":"` + time.Now().Add(-ago).UTC().Format(time.RFC3339) + `","error":"` + words + `"}`}
}

// TestTeardownOfAControllerWithoutARole: it runs, and its log reports that AWS rejects its credentials. Nothing is
// deleted, unless --terminate terminates what it leaves.
func TestTeardownOfAControllerWithoutARole(t *testing.T) {
	const refused = "describing ec2 instances, operation error EC2: DescribeInstances, https response error StatusCode: 403, RequestID: 8f, api error AuthFailure: AWS was not able to validate the provided access credentials"
	for name, c := range map[string]struct {
		ago    time.Duration
		words  string
		change func(sync *v1alpha1.NodeSync)
		args   []string
		code   int
		says   []string
	}{
		"refused": {
			time.Minute, refused, nil, nil, exitFailed,
			[]string{
				"Karpenter's controller runs, but AWS refuses its credentials (its log at ", "ec2:DescribeInstances: AuthFailure: AWS was not able to validate the provided access credentials",
				"kubectl rollout restart deployment karpenter -n kube-system", "nothing was changed", "use --terminate to terminate the instances that remain with your AWS credentials",
			},
		},
		"refused, with --terminate":  {time.Minute, refused, nil, []string{"--terminate"}, exitDone, []string{"AWS refuses its credentials", ": --terminate terminates the instances that remain"}},
		"refused, and begun already": {time.Minute, refused, begunToLeave, nil, exitStalled, []string{"AWS refuses its credentials", "restart it"}},
		"long ago":                   {time.Hour, refused, nil, nil, exitDone, nil},
		"another error":              {time.Minute, "operation error EC2: CreateFleet, api error UnauthorizedOperation: You are not authorized", nil, nil, exitDone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig, sync := fleetToLeave(t)
			logsError(s, c.ago, c.words)
			if c.change != nil {
				c.change(sync)
			}
			done := endsAtOnce(s)
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, append([]string{"prod", "--yes", "--timeout", "1s", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.code != c.code || c.code != exitDone && len(*done) > 0 {
				t.Errorf("code %d, want %d; did %v: %s", got.code, c.code, *done, got.err)
			}
			for _, want := range c.says {
				if !strings.Contains(got.out+got.err, want) {
					t.Errorf("prints %s, says %s; want %q in it", got.out, got.err, want)
				}
			}
			if all := got.out + got.err; c.says == nil && strings.Contains(all, "credentials") {
				t.Errorf("says %s", all)
			}
		})
	}
}

// TestTeardownSuspendsAppliers only with the flag, after the confirmation and before anything is deleted.
func TestTeardownSuspendsAppliers(t *testing.T) {
	const nodes, second = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/fleet", "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/team/kustomizations/fleet"
	kustomization := func(namespace string) map[string]any {
		return map[string]any{
			"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
			"metadata": map[string]any{"name": "fleet", "namespace": namespace}, "spec": map[string]any{"path": "./nodes"},
		}
	}
	for name, c := range map[string]struct {
		args    []string
		two     bool
		refused bool
		code    int
		did     []string
		says    string
	}{
		"not asked for": {code: exitDone, did: []string{"patch " + leavingPath, "delete " + leavingPath}},
		"asked for": {
			args: []string{"--suspend-appliers"}, code: exitDone, did: []string{"patch " + nodes, "patch " + leavingPath, "delete " + leavingPath},
			says: "Flux's Kustomization fleet is suspended; to undo this: flux resume kustomization fleet --namespace flux-system",
		},
		"which one is not known": {args: []string{"--suspend-appliers"}, two: true, code: exitFailed, says: "there is one in flux-system and one in team: suspend the right one yourself"},
		"not allowed":            {args: []string{"--suspend-appliers"}, refused: true, code: exitFailed, says: "suspend Flux's Kustomization fleet (nothing was deleted)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig, _ := fleetToLeave(t)
			s.objects[nodes] = kustomization("flux-system")
			if c.two {
				s.objects[second] = kustomization("team")
			}
			if c.refused {
				s.refused = map[string]int{nodes: 403}
			}
			done := endsAtOnce(s)
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, append([]string{"prod", "--yes", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.code != c.code || !slices.Equal(*done, c.did) || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, did %q, says %s", got.code, *done, got.err)
			}
		})
	}
}
