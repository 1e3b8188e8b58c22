package upgrade

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestHeartbeat: a controller that renews its lease is at work, whatever its clock shows; one that does not for a minute is
// stopped, since it renewed the lease last.
func TestHeartbeat(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	type read struct {
		after   time.Duration // since the start, by our clock
		renewed time.Duration // since the start, by the controller's
		holder  string
	}
	const host = "karpenter-1_0ab"
	cases := map[string]struct {
		reads []read
		want  string
	}{
		"first seen":                        {[]read{{0, -time.Hour, host}}, ""},
		"renewed":                           {[]read{{0, 0, host}, {time.Minute, time.Minute, host}, {2 * time.Minute, 2 * time.Minute, host}}, ""},
		"by a clock that is an hour behind": {[]read{{0, -time.Hour, host}, {time.Minute, -59 * time.Minute, host}}, ""},
		"not renewed for a while":           {[]read{{0, 0, host}, {50 * time.Second, 0, host}}, ""},
		"not renewed for a minute":          {[]read{{0, 0, host}, {time.Minute, 0, host}}, "2026-01-01T12:00:00Z"},
		"by a clock that is a year behind":  {[]read{{0, -8760 * time.Hour, host}, {time.Minute, -8760 * time.Hour, host}}, "2025-01-01T12:00:00Z"},
		"nor for five":                      {[]read{{0, 0, host}, {time.Minute, 0, host}, {2 * time.Minute, 0, host}, {3 * time.Minute, 0, host}, {5 * time.Minute, 0, host}}, "2026-01-01T12:00:00Z"},
		"renewed again":                     {[]read{{0, 0, host}, {time.Minute, 0, host}, {2 * time.Minute, 2 * time.Minute, host}}, ""},
		"not read for long":                 {[]read{{0, 0, host}, {time.Hour, 0, host}}, ""},
		"the clock was put back":            {[]read{{time.Hour, 0, host}, {0, 0, host}}, ""},
		"given up":                          {[]read{{0, 0, host}, {time.Minute, 0, ""}}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var h Heartbeat
			for _, r := range c.reads {
				h.note(&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
					HolderIdentity: ptr.To(r.holder), RenewTime: ptr.To(metav1.NewMicroTime(start.Add(r.renewed))),
				}}, start.Add(r.after))
			}
			got := h.stopped("kube-system")
			if (got != nil) != (c.want != "") {
				t.Fatalf("stopped: %+v", got)
			}
			want := "Karpenter has not renewed its lease karpenter-leader-election since " + c.want + ": it launches, replaces and terminates no node; pod karpenter-1 holds the lease: kubectl logs -n kube-system karpenter-1"
			if got != nil && got.Message != want {
				t.Errorf("got  %q\nwant %q", got.Message, want)
			}
			if got != nil && !got.Since.Equal(start) {
				t.Errorf("since %s, want the first read at %s", got.Since, start)
			}
		})
	}
	h := Heartbeat{}
	if h.note(&coordinationv1.Lease{}, start); h.Found() || h.stopped("kube-system") != nil {
		t.Error("there is no lease")
	}
}
