package blocker

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// TestReadAgain checks that a new cause is read again within seconds, and the less often the longer it lasts, but at
// least every minute.
func TestReadAgain(t *testing.T) {
	for name, c := range map[string]struct{ kept, want time.Duration }{
		"since now":       {0, 5 * time.Second},
		"in the future":   {-time.Minute, 5 * time.Second}, // the clock was set back
		"half a minute":   {30 * time.Second, 5 * time.Second},
		"a minute":        {time.Minute, 10 * time.Second},
		"three minutes":   {3 * time.Minute, 30 * time.Second},
		"six minutes":     {6 * time.Minute, time.Minute},
		"an hour":         {time.Hour, time.Minute},
		"longer than all": {1<<63 - 1, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ReadAgain(c.kept); got != c.want {
				t.Errorf("after %s it is read again in %s, want %s", c.kept, got, c.want)
			}
		})
	}
}

// TestDeadline: from when on the drain of a NodeClaim overrides PodDisruptionBudgets.
func TestDeadline(t *testing.T) {
	deleted := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	for name, c := range map[string]struct {
		deleted    *metav1.Time
		grace      *metav1.Duration
		annotation string
		want       string
	}{
		"not deleted":                   {grace: &metav1.Duration{Duration: time.Hour}},
		"no terminationGracePeriod":     {deleted: &deleted},
		"an hour":                       {deleted: &deleted, grace: &metav1.Duration{Duration: time.Hour}, want: "2026-01-01T13:00:00Z"},
		"none at all":                   {deleted: &deleted, grace: &metav1.Duration{}, want: "2026-01-01T12:00:00Z"},
		"by the annotation":             {deleted: &deleted, grace: &metav1.Duration{Duration: time.Hour}, annotation: "2026-01-01T12:30:00Z", want: "2026-01-01T12:30:00Z"},
		"an annotation that is no time": {deleted: &deleted, grace: &metav1.Duration{Duration: time.Hour}, annotation: "soon", want: "2026-01-01T13:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: c.deleted}}
			claim.Spec.TerminationGracePeriod = c.grace
			if c.annotation != "" {
				claim.Annotations = map[string]string{karpv1.NodeClaimTerminationTimestampAnnotationKey: c.annotation}
			}
			got := ""
			if at := Deadline(claim); !at.IsZero() {
				got = at.UTC().Format(time.RFC3339)
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
