package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// stackOf is the stack of cluster demo.
func stackOf() *cloud.Stack {
	return &cloud.Stack{Name: "plumbline-demo", ID: "id", Status: "CREATE_COMPLETE"}
}

// teardownToAWS runs a teardown of NodeSync prod with --down-to aws in an account.
func teardownToAWS(t *testing.T, account *bootstrapAWS, kubeconfig string, args ...string) said {
	t.Helper()
	remains := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
	v := verification{
		dial: remains.dial, dialDeleter: (&endingAWS{}).dial, now: time.Now, pause: time.Millisecond,
		dialProvisioner: func(context.Context, string, steppoint.Points) (provisioner, error) { return account, nil },
	}
	return teardownAsking(t.Context(), t, nil, v, append([]string{"--down-to", "aws", "--kubeconfig", kubeconfig, "--timeout", "1m"}, args...)...)
}

// withoutKarpenter is a cluster whose NodeSync is deleted, and whose Karpenter is uninstalled.
func withoutKarpenter(t *testing.T) string {
	t.Helper()
	s, kubeconfig, _ := fleetToLeave(t)
	s.texts["/version"] = `{"gitVersion":"v1.36.0"}`
	for _, path := range []string{
		leavingPath, controllerPath, "/apis/karpenter.sh/v1/nodepools/general", "/apis/karpenter.sh/v1/nodepools/other",
		"/apis/karpenter.sh/v1/nodeclaims/general-a",
	} {
		delete(s.objects, path)
	}
	return kubeconfig
}

// TestTeardownDownToAWS: once nothing is left, the stack is deleted as by plumbline bootstrap --undo; while something uses it, it
// stays.
func TestTeardownDownToAWS(t *testing.T) {
	names := []string{"prod", "--cluster", "demo", "--region", "eu-west-1", "--account", "111122223333", "--yes"}
	account := &bootstrapAWS{stack: stackOf(), tags: map[string]map[string]string{"subnet-1": {"plumbline.dev/bootstrap": "plumbline-demo"}}}
	got := teardownToAWS(t, account, withoutKarpenter(t), names...)
	if got.code != exitDone || !account.deleted || len(account.tags["subnet-1"]) != 0 || !strings.Contains(got.err, "nothing of plumbline bootstrap is left in AWS") {
		t.Errorf("code %d, deleted %v, tags %v: %s%s", got.code, account.deleted, account.tags, got.out, got.err)
	}
	again := teardownToAWS(t, account, withoutKarpenter(t), names...)
	if again.code != exitDone || !strings.Contains(again.err, "stack plumbline-demo does not exist") {
		t.Errorf("again: code %d: %s", again.code, again.err)
	}
	used := &bootstrapAWS{stack: stackOf(), instances: []cloud.Instance{{ID: "i-1"}}}
	got = teardownToAWS(t, used, withoutKarpenter(t), names...)
	if got.code != exitFailed || used.deleted || !strings.Contains(got.err, "is in use by 1 instances of Karpenter, such as i-1") {
		t.Errorf("in use: code %d, deleted %v: %s", got.code, used.deleted, got.err)
	}
	unconfirmed := &bootstrapAWS{stack: stackOf()}
	got = teardownToAWS(t, unconfirmed, withoutKarpenter(t), names[:len(names)-1]...)
	if got.code != exitFailed || unconfirmed.deleted {
		t.Errorf("without a confirmation: code %d, deleted %v: %s", got.code, unconfirmed.deleted, got.err)
	}
}

// TestTeardownWithoutAStack: a cluster that plumbline bootstrap has not set up is refused before anything changes.
func TestTeardownWithoutAStack(t *testing.T) {
	s, kubeconfig, _ := fleetToLeave(t)
	for _, path := range []string{controllerPath, "/apis/karpenter.sh/v1/nodepools/other"} {
		delete(s.objects, path)
	}
	got := teardownToAWS(t, &bootstrapAWS{}, kubeconfig, "prod", "--yes")
	if got.code != exitFailed || !strings.Contains(got.err, "stack plumbline-demo does not exist in eu-west-1: plumbline bootstrap has not set up EKS cluster demo") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	if changed := s.changes(); len(changed) != 0 {
		t.Errorf("changed %v", changed)
	}
}
