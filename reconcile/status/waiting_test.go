package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// TestWhatMayStallIsKept shows that status.waiting keeps since when a wait that may not end by itself lasts, even after
// it has stalled: after a restart it is the only record.
func TestWhatMayStallIsKept(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := &v1alpha1.Waiting{For: "NodePool/b", Message: "not Ready", Since: metav1.NewTime(now.Add(-time.Minute))}
	neighbor := func(since time.Time) finding.Wait {
		return finding.Wait{On: "NodeSync/a", Message: "it fails", Since: since, Stalls: since.Add(15 * time.Minute)}
	}
	pool, stage := finding.Wait{On: "NodePool/b", Message: "not Ready"}, finding.Wait{On: "Controller", Message: "no replica is ready"}
	recent, long := now.Add(-5*time.Minute), now.Add(-time.Hour)
	for name, c := range map[string]struct {
		before *v1alpha1.Waiting
		waits  []finding.Wait
		want   *v1alpha1.Waiting
	}{
		"for a while":          {nil, []finding.Wait{neighbor(recent)}, &v1alpha1.Waiting{For: "NodeSync/a", Message: "it fails", Since: metav1.NewTime(recent)}},
		"too long":             {nil, []finding.Wait{neighbor(long)}, &v1alpha1.Waiting{For: "NodeSync/a", Message: "it fails", Since: metav1.NewTime(long)}},
		"beside an object":     {before, []finding.Wait{pool, neighbor(recent)}, &v1alpha1.Waiting{For: "NodeSync/a", Message: "it fails", Since: metav1.NewTime(recent)}},
		"too long, beside one": {before, []finding.Wait{pool, neighbor(long)}, &v1alpha1.Waiting{For: "NodeSync/a", Message: "it fails", Since: metav1.NewTime(long)}},
		"beside a Stage":       {nil, []finding.Wait{stage, neighbor(recent)}, &v1alpha1.Waiting{For: "Controller", Message: "no replica is ready", Since: metav1.NewTime(now)}},
		"an object":            {before, []finding.Wait{pool}, before},
		"nothing":              {before, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Waiting: c.before}}
			s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: now}
			s.Waits = c.waits
			s.setWaiting(s.Verdict())
			if diff := cmp.Diff(c.want, s.Sync.Status.Waiting); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAllClassesThatAreNotReadyAreNamed, each reason first, so that a commit status shows it. Pools that wait for them
// are not named.
func TestAllClassesThatAreNotReadyAreNamed(t *testing.T) {
	const role, toml = "creating instance profile, NoSuchEntity: The role with name x cannot be found. (Karpenter's log)", "invalid UserData (Karpenter's log)"
	wait := func(class, reason string) finding.Wait {
		return finding.Wait{On: "EC2NodeClass/" + class, Message: "EC2NodeClass/" + class + " is not Ready: " + reason}
	}
	pool := finding.Wait{On: "NodePool/web", Message: "NodePool/web is not Ready: UnhealthyDependents"}
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lasting := wait("b", toml)
	lasting.Since, lasting.Stalls = since, since.Add(15*time.Minute)
	for name, c := range map[string]struct {
		before string
		waits  []finding.Wait
		later  time.Duration
		want   string
	}{
		"one":                       {waits: []finding.Wait{wait("a", role), pool}, want: "waiting: EC2NodeClass/a is not Ready: " + role},
		"one, and a pool before it": {before: "NodePool/web", waits: []finding.Wait{wait("a", role), pool}, want: "waiting: EC2NodeClass/a is not Ready: " + role},
		"four":                      {waits: []finding.Wait{wait("a", role), wait("b", toml), wait("c", role), wait("d", role), pool}, want: "waiting for 4 EC2NodeClasses: " + role + ": EC2NodeClass/a, EC2NodeClass/c, EC2NodeClass/d; " + toml + ": EC2NodeClass/b"},
		"the one of before first":   {before: "EC2NodeClass/b", waits: []finding.Wait{wait("a", role), wait("b", toml)}, want: "waiting for 2 EC2NodeClasses: " + toml + ": EC2NodeClass/b; " + role + ": EC2NodeClass/a"},
		"stalled":                   {waits: []finding.Wait{wait("a", role), lasting}, later: time.Hour, want: "stalled: waiting for 2 EC2NodeClasses: " + toml + ": EC2NodeClass/b; " + role + ": EC2NodeClass/a"},
		"pools":                     {waits: []finding.Wait{pool, {On: "NodePool/api", Message: "NodePool/api is not Ready: x"}}, want: "waiting: " + pool.Message},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{}
			if c.before != "" {
				sync.Status.Waiting = &v1alpha1.Waiting{For: c.before}
			}
			s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: since.Add(c.later)}
			s.Waits = c.waits
			if got := s.Verdict().Message; got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
