package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// frozenSync freezes removals and replacements of all nodes.
func frozenSync(n *v1alpha1.NodeSync) {
	n.Spec.Guard.Freeze = []v1alpha1.GuardFreeze{{From: "2020-01-01", To: "2999-12-31", Reason: "audit"}}
}

// TestEmergency writes the annotations that the admission policy requires together: the time, the author, and the
// reason.
func TestEmergency(t *testing.T) {
	s, kubeconfig := serve(t, nodeSync("prod", frozenSync))
	s.user = "ann@example.com"
	annotations := func() map[string]string {
		return s.objects[syncPath+"prod"].(*v1alpha1.NodeSync).Annotations
	}
	before := time.Now()
	got := plumbline(t, "emergency", "prod", "--until", "2h", "--reason", "no network", "--kubeconfig", kubeconfig)
	at, err := time.Parse(time.RFC3339, strings.TrimSuffix(strings.TrimPrefix(got.err, "nodesync/prod: windows and freezes are overridden until "), " (declared by ann@example.com)\n"))
	if got.code != exitDone || err != nil || at.Sub(before).Round(time.Minute) != 2*time.Hour {
		t.Fatalf("code %d, says %q: %v", got.code, got.err, err)
	}
	want := map[string]string{v1alpha1.EmergencyAnnotation: at.Format(time.RFC3339), v1alpha1.EmergencyByAnnotation: "ann@example.com", v1alpha1.EmergencyReasonAnnotation: "no network"}
	if diff := cmp.Diff(want, annotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got = plumbline(t, "calendar", "prod", "--kubeconfig", kubeconfig); !strings.Contains(got.out, "declared by ann@example.com: no network") {
		t.Errorf("the calendar prints\n%s", got.out)
	}

	s.user = "bob@example.com"
	if got = plumbline(t, "emergency", "prod", "--until", "30m", "--kubeconfig", kubeconfig); got.code != exitDone {
		t.Fatalf("code %d, says %q", got.code, got.err)
	}
	now := annotations()
	if _, left := now[v1alpha1.EmergencyReasonAnnotation]; left || now[v1alpha1.EmergencyByAnnotation] != "bob@example.com" {
		t.Errorf("the next one leaves %v", now)
	}
}

// TestEmergencyMistakes: each is an error with instructions, and nothing is written.
func TestEmergencyMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		sync  func(*v1alpha1.NodeSync)
		until string
		given func(*apiServer)
		says  string
	}{
		"no duration": {sync: frozenSync, until: "soon", says: `--until "soon": it must be a time, for example 2026-12-24T20:00:00Z, or a duration, such as 2h`},
		"too long":    {sync: frozenSync, until: "25h", says: `--until "25h": it must be within 24 hours`},
		"over":        {sync: frozenSync, until: "2020-01-01T00:00:00Z", says: "must be in the future"},
		"no calendar": {sync: func(*v1alpha1.NodeSync) {}, until: "1h", says: "nodesync/prod has neither windows nor freezes"},
		"no right":    {sync: frozenSync, until: "1h", given: func(s *apiServer) { s.unpatchable = emergencyPolicy }, says: "you are ann@example.com, who may not declare an emergency in namespace fleet: an administrator can allow it with `kubectl create rolebinding NAME --clusterrole plumbline-emergency --user ann@example.com -n fleet`"},
		"no patch":    {sync: frozenSync, until: "1h", given: func(s *apiServer) { s.unpatchable = "RBAC" }, says: "write NodeSync prod: you are not allowed to"},
	} {
		t.Run(name, func(t *testing.T) {
			sync := nodeSync("prod", c.sync)
			s, kubeconfig := serve(t, sync)
			s.user = "ann@example.com"
			if c.given != nil {
				c.given(s)
			}
			got := plumbline(t, "emergency", "prod", "--until", c.until, "--kubeconfig", kubeconfig)
			if got.code == exitDone || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, says %q, want %q", got.code, got.err, c.says)
			}
			if s.objects[syncPath+"prod"] != any(sync) {
				t.Error("it was written")
			}
		})
	}
}
