package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/fleet/leases/plumbline"

// leaseOf is the leader's lease, renewed so long ago.
func leaseOf(holder string, ago time.Duration) map[string]any {
	return map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": "plumbline", "namespace": "fleet"},
		"spec":     map[string]any{"holderIdentity": holder, "leaseDurationSeconds": 10, "renewTime": metav1.NewMicroTime(time.Now().Add(-ago))},
	}
}

// lasting is a lease with another duration; one of none has no time either.
func lasting(lease map[string]any, seconds int) map[string]any {
	spec := lease["spec"].(map[string]any)
	spec["leaseDurationSeconds"] = seconds
	if seconds == 0 {
		delete(spec, "leaseDurationSeconds")
		delete(spec, "renewTime")
	}
	return lease
}

// TestWithoutADaemon: what a status says while nobody leads is of before, and no success.
func TestWithoutADaemon(t *testing.T) {
	cases := map[string]struct {
		lease   any
		renewed func() map[string]any // what the lease is once it was read
		refused int
		says    string
	}{
		"it leads":            {lease: leaseOf("a", time.Second), renewed: func() map[string]any { return leaseOf("a", 0) }},
		"there is no lease":   {},
		"it may not be read":  {lease: leaseOf("a", time.Hour), refused: http.StatusForbidden},
		"it was killed":       {lease: leaseOf("pod-1_a", time.Minute), says: "no daemon leads: lease fleet/plumbline of pod-1_a has run out, 1m"},
		"it stopped":          {lease: leaseOf("", time.Minute)},
		"its clock is behind": {lease: leaseOf("a", time.Minute), renewed: func() map[string]any { return leaseOf("a", time.Minute-time.Second) }},
		"another's, for days": {lease: lasting(leaseOf("stranger", time.Minute), 11*24*60*60), says: "no daemon leads: lease fleet/plumbline of stranger is not renewed and keeps others from leading for 264h"},
		"of another year":     {lease: leaseOf("stranger", -365*24*time.Hour), says: "no daemon leads: lease fleet/plumbline of stranger is not renewed, and its renewTime is 8759h"},
		"without a time":      {lease: lasting(leaseOf("stranger", 0), 0), says: "no daemon leads: lease fleet/plumbline of stranger has run out"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig := serve(t, verdicts()["in-sync"])
			if c.lease != nil {
				s.objects[leasePath] = c.lease
			}
			if c.refused != 0 {
				s.refused[leasePath] = c.refused
			}
			if c.renewed != nil {
				s.answered = func(path string) {
					if path == leasePath {
						s.objects[leasePath] = c.renewed()
					}
				}
			}
			got := plumbline(t, "status", "prod", "--kubeconfig", kubeconfig)
			in, first := strings.Contains(got.out, "nodesync/prod: in sync"), strings.HasPrefix(got.out, "no daemon leads: ")
			switch {
			case c.says == "" && (got.code != exitDone || !in || first):
				t.Errorf("code %d: %s", got.code, got.out)
			case c.says != "" && (got.code != exitFailed || in || !strings.HasPrefix(got.out, c.says) || strings.Contains(got.out, "fetches every")):
				t.Errorf("code %d: %s", got.code, got.out)
			}
			got = plumbline(t, "get", "--kubeconfig", kubeconfig)
			if !strings.HasPrefix(got.err, c.says) || (got.err == "") != (c.says == "") || got.code != exitDone {
				t.Errorf("get: code %d, says %q", got.code, got.err)
			}
		})
	}
}
