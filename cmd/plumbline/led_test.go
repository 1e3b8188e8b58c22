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

// TestWithoutADaemon: what a status says while nobody leads is of before, and no success.
func TestWithoutADaemon(t *testing.T) {
	cases := map[string]struct {
		lease   any
		refused int
		says    string
	}{
		"it leads":            {lease: leaseOf("a", time.Second)},
		"there is no lease":   {},
		"it may not be read":  {lease: leaseOf("a", time.Hour), refused: http.StatusForbidden},
		"it was killed":       {lease: leaseOf("pod-1_a", time.Minute), says: "no daemon leads: lease fleet/plumbline of pod-1_a has run out, 1m"},
		"it stopped":          {lease: leaseOf("", time.Minute)},
		"its clock is behind": {lease: leaseOf("renewed", time.Minute)},
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
			if name == "its clock is behind" {
				s.answered = func(path string) {
					if path == leasePath {
						s.objects[leasePath] = leaseOf("renewed", time.Minute-time.Second)
					}
				}
			}
			got := plumbline(t, "status", "prod", "--kubeconfig", kubeconfig)
			in, first := strings.Contains(got.out, "nodesync/prod: in sync"), strings.HasPrefix(got.out, "no daemon leads: ")
			switch {
			case c.says == "" && (got.code != exitDone || !in || first):
				t.Errorf("code %d: %s", got.code, got.out)
			case c.says != "" && (got.code != exitFailed || in || !strings.HasPrefix(got.out, c.says) || strings.Contains(got.out, "looks at Git every")):
				t.Errorf("code %d: %s", got.code, got.out)
			}
			got = plumbline(t, "get", "--kubeconfig", kubeconfig)
			if !strings.HasPrefix(got.err, c.says) || (got.err == "") != (c.says == "") || got.code != exitDone {
				t.Errorf("get: code %d, says %q", got.code, got.err)
			}
		})
	}
}
