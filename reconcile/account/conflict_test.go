package account

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

var conflictNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return conflictNow.Add(-d) }

// TestConflict: which signs are a conflict, and which of them have a harmless cause if they are the only ones.
func TestConflict(t *testing.T) {
	terminated := func(times ...time.Duration) (all []Termination) {
		for i, d := range times {
			all = append(all, Termination{Instance: "i-" + string(rune('a'+i)), Pool: "general", At: ago(d)})
		}
		return all
	}
	foreign := []Stranger{{Instance: "i-x", Pool: "general", Launched: ago(time.Minute), Alive: true, Endpoint: "https://theirs", Foreign: true}}
	unknown := []Stranger{{Instance: "i-u", Pool: "general", Launched: ago(2 * time.Minute), Alive: true}}
	own := []Stranger{{Instance: "i-o", Pool: "general", Launched: ago(2 * time.Minute), Alive: true, Endpoint: "https://ours"}}
	made := []Resource{{What: "launch template lt-1", Created: ago(2 * time.Minute)}}
	for name, test := range map[string]struct {
		signs          Signs
		open, proven   bool
		since, lastAgo time.Duration
	}{
		"nothing":                                       {},
		"one instance is terminated by hand":            {signs: Signs{Terminations: terminated(time.Minute)}},
		"two, an hour apart":                            {signs: Signs{Terminations: terminated(time.Hour, time.Minute)}},
		"two, six minutes apart":                        {signs: Signs{Terminations: terminated(7*time.Minute, time.Minute)}},
		"two within five minutes":                       {signs: Signs{Terminations: terminated(time.Minute, 4*time.Minute)}, open: true, since: 4 * time.Minute, lastAgo: time.Minute},
		"an instance for another API server":            {signs: Signs{Strangers: foreign}, open: true, proven: true, since: time.Minute, lastAgo: time.Minute},
		"a terminated one for another API server":       {signs: Signs{Strangers: []Stranger{{Instance: "i-x", Launched: ago(time.Minute), Endpoint: "https://theirs", Foreign: true}}}, open: true, proven: true, since: time.Minute, lastAgo: time.Minute},
		"an old instance of a cluster that was rebuilt": {signs: Signs{Strangers: []Stranger{{Instance: "i-x", Launched: ago(time.Hour), Alive: true, Endpoint: "https://theirs", Foreign: true}}}},
		"an instance of unknown origin":                 {signs: Signs{Strangers: unknown}},
		"a copy that a person has launched":             {signs: Signs{Strangers: own, Terminations: terminated(time.Minute)}},
		"a launch template that is left":                {signs: Signs{Resources: made}},
		"a termination and an unknown instance":         {signs: Signs{Strangers: unknown, Terminations: terminated(time.Minute)}, open: true, since: 2 * time.Minute, lastAgo: time.Minute},
		"a termination and an unknown launch template":  {signs: Signs{Resources: made, Terminations: terminated(time.Minute)}, open: true, since: 2 * time.Minute, lastAgo: time.Minute},
		"resolved since":                                {signs: Signs{Strangers: foreign, Terminations: terminated(time.Minute, time.Minute), Resolved: conflictNow}},
		"again after it was resolved":                   {signs: Signs{Terminations: terminated(time.Minute, 4*time.Minute), Resolved: ago(5 * time.Minute)}, open: true, since: 4 * time.Minute, lastAgo: time.Minute},
		"resolved in the future, by mistake":            {signs: Signs{Strangers: foreign, Resolved: conflictNow.Add(time.Hour)}, open: true, proven: true, since: time.Minute, lastAgo: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			test.signs.Cluster = "demo"
			got := Conflict(nil, test.signs, conflictNow)
			if got.Open() != test.open {
				t.Fatalf("open %t: %+v", got.Open(), got)
			}
			if !test.open {
				if got != nil {
					t.Errorf("%+v", got)
				}
				return
			}
			if got.Proven != test.proven || !got.Since.Equal(new(metav1.NewTime(ago(test.since)))) || !got.LastSign.Equal(new(metav1.NewTime(ago(test.lastAgo)))) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestConflictLasts: what is known of a conflict stays, and it ends half an hour after its last sign, unless the response
// hides signs, or EC2 does not answer.
func TestConflictLasts(t *testing.T) {
	began := Signs{
		Cluster: "demo", Ours: 3, Theirs: 1,
		Terminations: []Termination{{Instance: "i-a", Pool: "general", At: ago(2 * time.Minute)}, {Instance: "i-b", Pool: "general", At: ago(time.Minute)}},
		Strangers:    []Stranger{{Instance: "i-x", Pool: "batch", Launched: ago(3 * time.Minute), Alive: true, Endpoint: "https://theirs", Foreign: true}},
	}
	first := Conflict(nil, began, conflictNow)
	want := &v1alpha1.IdentityConflict{
		Since: metav1.NewTime(ago(3 * time.Minute)), LastSign: metav1.NewTime(ago(time.Minute)), Proven: true, Endpoints: []string{"https://theirs"},
		Evidence: []string{
			"instance i-x of NodePool batch was launched under the name demo at 11:57:00 UTC for API server https://theirs",
			"instance i-a of NodePool/general was terminated in EC2 at 11:58:00 UTC by a client other than this cluster's Karpenter",
			"instance i-b of NodePool/general was terminated in EC2 at 11:59:00 UTC by a client other than this cluster's Karpenter",
		},
		Terminated: 2, Ours: 3, Theirs: 1,
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	quiet := Signs{Cluster: "demo", Ours: 3}
	for name, test := range map[string]struct {
		change func(*Signs)
		after  time.Duration
		open   bool
	}{
		"a moment later":           {func(*Signs) {}, time.Minute, true},
		"half an hour later":       {func(*Signs) {}, 29 * time.Minute, false},
		"EC2 does not answer":      {func(s *Signs) { s.Unknown = true }, time.Hour, true},
		"hidden by the response":   {func(s *Signs) { s.Hidden = true }, 24 * time.Hour, true},
		"hidden, and resolved":     {func(s *Signs) { s.Hidden, s.Resolved = true, conflictNow.Add(time.Minute) }, 2 * time.Minute, false},
		"resolved before it began": {func(s *Signs) { s.Hidden, s.Resolved = true, ago(time.Hour) }, 2 * time.Minute, true},
		"one more sign afterwards": {func(s *Signs) {
			s.Terminations = []Termination{{Instance: "i-c", Pool: "general", At: conflictNow.Add(20 * time.Minute)}, {Instance: "i-d", Pool: "general", At: conflictNow.Add(20 * time.Minute)}}
		}, 45 * time.Minute, true},
		"the name stays as it was": {func(*Signs) {}, 2 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			signs := quiet
			test.change(&signs)
			got := Conflict(first.DeepCopy(), signs, conflictNow.Add(test.after))
			if got.Open() != test.open {
				t.Fatalf("open %t: %+v", got.Open(), got)
			}
			if got.Open() && (!got.Proven || got.Terminated < 2 || !got.Since.Equal(&first.Since) || !strings.Contains(strings.Join(got.Evidence, " "), "i-x")) {
				t.Errorf("forgotten: %+v", got)
			}
		})
	}
}

// TestResponseOutlastsConflict: a response that is not undone yet stays recorded.
func TestResponseOutlastsConflict(t *testing.T) {
	before := &v1alpha1.IdentityConflict{
		Since: metav1.NewTime(ago(2 * time.Hour)), LastSign: metav1.NewTime(ago(time.Hour)), Response: &v1alpha1.IdentityResponse{Protected: []string{"i-1"}},
	}
	got := Conflict(before, Signs{}, conflictNow)
	if diff := cmp.Diff(&v1alpha1.IdentityConflict{Response: &v1alpha1.IdentityResponse{Protected: []string{"i-1"}}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got.Response.Protected = nil
	if got := Conflict(got, Signs{}, conflictNow); got != nil {
		t.Errorf("%+v", got)
	}
}
