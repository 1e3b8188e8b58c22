package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestCalendar lists open and closed periods, of one NodeSync and of all.
func TestCalendar(t *testing.T) {
	frozen := func(n *v1alpha1.NodeSync) {
		n.Spec.Guard.Freeze = []v1alpha1.GuardFreeze{{From: "2020-01-01", To: "2999-12-31", Reason: "audit"}}
	}
	windowed := func(n *v1alpha1.NodeSync) {
		n.Spec.Guard.Windows = []v1alpha1.GuardWindow{{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: 2 * time.Hour}}}
	}
	emergency := func(until string) func(*v1alpha1.NodeSync) {
		return func(n *v1alpha1.NodeSync) {
			n.Annotations = map[string]string{v1alpha1.EmergencyAnnotation: until, v1alpha1.EmergencyByAnnotation: "ann@example.com"}
		}
	}
	_, kubeconfig := serve(t, nodeSync("audited", frozen), nodeSync("free"), nodeSync("nightly", windowed),
		nodeSync("urgent", frozen, emergency(time.Now().Add(time.Hour).UTC().Format(time.RFC3339))), nodeSync("hasty", frozen, emergency("now")))

	got := plumbline(t, "calendar", "audited", "--kubeconfig", kubeconfig)
	if lines := strings.Split(strings.TrimSpace(got.out), "\n"); got.code != exitDone || len(lines) != 2 || !strings.Contains(lines[1], "stay") || !strings.Contains(lines[1], "spec.guard.freeze: audit") {
		t.Errorf("a freeze: code %d, prints\n%s", got.code, got.out)
	}
	if got = plumbline(t, "calendar", "urgent", "hasty", "--kubeconfig", kubeconfig); !strings.Contains(got.out, "may be replaced   plumbline.dev/emergency-until: declared by ann@example.com") || !strings.Contains(got.err, "nodesync/hasty: the annotation plumbline.dev/emergency-until does not count: it must be a time") {
		t.Errorf("emergencies: prints\n%s%s", got.out, got.err)
	}
	got = plumbline(t, "calendar", "nightly", "--days", "2", "-o", "json", "--kubeconfig", kubeconfig)
	var found []syncCalendar
	if err := json.Unmarshal([]byte(got.out), &found); err != nil || len(found) != 1 || found[0].NodeSync != "nightly" || found[0].Namespace != "fleet" {
		t.Fatalf("prints %s: %v", got.out, err)
	}
	open := time.Duration(0)
	for _, p := range found[0].Periods {
		if p.Open {
			open += p.To.Sub(p.From)
		}
	}
	if open != 4*time.Hour {
		t.Errorf("open for %s in 2 days: %s", open, got.out)
	}
	if got = plumbline(t, "calendar", "--kubeconfig", kubeconfig); got.code != exitDone || !strings.Contains(got.out, "free ") || strings.Count(got.out, "nightly") < 59 {
		t.Errorf("all: code %d, prints\n%s", got.code, got.out)
	}
}

// TestCalendarIsReadable: an empty calendar says so, and times are in the windows' time zone.
func TestCalendarIsReadable(t *testing.T) {
	in := func(zones ...string) func(*v1alpha1.NodeSync) {
		return func(n *v1alpha1.NodeSync) {
			for _, zone := range zones {
				n.Spec.Guard.Windows = append(n.Spec.Guard.Windows, v1alpha1.GuardWindow{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: 2 * time.Hour}, TimeZone: zone})
			}
		}
	}
	_, kubeconfig := serve(t, nodeSync("free"), nodeSync("tokyo", in("Asia/Tokyo")), nodeSync("both", in("Asia/Tokyo", "")))
	for name, want := range map[string]string{"free": "may be replaced   no window or freeze applies", "tokyo": " 22:00 JST", "both": " 22:00 UTC"} {
		if got := plumbline(t, "calendar", name, "--kubeconfig", kubeconfig); got.code != exitDone || !strings.Contains(got.out, want) {
			t.Errorf("%s: code %d, want %q in\n%s", name, got.code, want, got.out)
		}
	}
	_, kubeconfig = serve(t)
	if got := plumbline(t, "calendar", "--kubeconfig", kubeconfig); got.code != exitDone || got.out != "" || !strings.Contains(got.err, "no NodeSync here") {
		t.Errorf("none: code %d, prints %q, says %q", got.code, got.out, got.err)
	}
}

// TestCalendarMistakes: each mistake is one line that names the problem.
func TestCalendarMistakes(t *testing.T) {
	wrong := nodeSync("wrong", func(n *v1alpha1.NodeSync) {
		n.Spec.Guard.Windows = []v1alpha1.GuardWindow{{Schedule: "0 0 31 2 *", Duration: metav1.Duration{Duration: time.Hour}}}
	})
	s, kubeconfig := serve(t, wrong)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"too many days":    {[]string{"wrong", "--days", "91"}, "--days 91: must be from 1 to 90"},
		"no day":           {[]string{"wrong", "--days", "0"}, "--days 0"},
		"a bad window":     {[]string{"wrong"}, "nodesync/wrong: spec.guard.windows[0].schedule: \"0 0 31 2 *\" never matches"},
		"no such NodeSync": {[]string{"stage"}, "does not exist"},
	} {
		if got := plumbline(t, append([]string{"calendar", "--kubeconfig", kubeconfig}, c.args...)...); got.code != exitFailed || !strings.Contains(got.err, c.says) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s: code %d, says %q", name, got.code, got.err)
		}
	}
	s.refused[syncPath] = http.StatusForbidden
	if got := plumbline(t, "calendar", "wrong", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "not allowed to") {
		t.Errorf("not allowed: code %d, says %q", got.code, got.err)
	}
}
