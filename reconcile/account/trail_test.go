package account

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// history is CloudTrail, which knows calls five minutes later, unless it denies the query.
type history struct {
	calls   []cloud.TrailCall
	denies  bool
	queries int
}

func (h *history) Trail(_ context.Context, action string, since, until time.Time, _ int) ([]cloud.TrailCall, error) {
	h.queries++
	if action != cloud.TerminateInstances {
		return nil, fmt.Errorf("queried %s", action)
	}
	if h.denies {
		return nil, &cloud.DeniedError{Action: "cloudtrail:LookupEvents"}
	}
	return slices.DeleteFunc(slices.Clone(h.calls), func(c cloud.TrailCall) bool {
		return c.At.Before(since) || c.At.After(until) || time.Since(c.At) < 5*time.Minute
	}), nil
}

// reconciles looks each second for a time, and returns the last result and whether another look is wanted.
func reconciles(ctx context.Context, reader *TrailReader, h *history, all []Termination, during time.Duration) (principals []string, open bool) {
	dial := func(context.Context) (TrailCloud, error) { return h, nil }
	var again time.Time
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(time.Second) { //nolint:forbidigo // the clock is synctest's
		principals, again = reader.Look(ctx, dial, all, time.Now())
		synctest.Wait()
	}
	return principals, !again.IsZero()
}

// TestTrailReader: without a termination CloudTrail is not queried; with one, once a minute until the answer is known, at
// most 20 minutes, and after a denial not again within that time.
func TestTrailReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, reader := &history{}, &TrailReader{}
		if _, open := reconciles(t.Context(), reader, h, nil, time.Hour); open || h.queries != 0 {
			t.Errorf("at rest: %d queries, open %v", h.queries, open)
		}
		at := time.Now()
		all := []Termination{{Instance: "i-1", Pool: "a", At: at}, {Instance: "i-2", Pool: "a", At: at.Add(time.Minute)}}
		h.calls = []cloud.TrailCall{
			{At: at, Principal: "arn:theirs", Instances: []string{"i-1", "i-2"}}, {At: at, Principal: "arn:ann", Instances: []string{"i-9"}},
		}
		got, open := reconciles(t.Context(), reader, h, all, 8*time.Minute)
		if !slices.Equal(got, []string{"arn:theirs"}) || open || h.queries > 6 {
			t.Errorf("principals %q after %d queries, open %v", got, h.queries, open)
		}
		for name, h := range map[string]*history{"denied": {denies: true}, "never known": {}} {
			all[0].At, all[1].At = time.Now(), time.Now()
			got, open := reconciles(t.Context(), &TrailReader{}, h, all, time.Hour)
			if limit := map[bool]int{true: 1, false: 20}[h.denies]; len(got) > 0 || open || h.queries < 1 || h.queries > limit {
				t.Errorf("%s: principals %q, %d queries, open %v", name, got, h.queries, open)
			}
		}
	})
}

func TestNamePrincipals(t *testing.T) {
	c := &v1alpha1.IdentityConflict{Since: metav1.Now()}
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprintf("arn:%d", i))
	}
	switch {
	case !NamePrincipals(c, []string{"arn:0", ""}) || !slices.Equal(c.Principals, many[:1]):
		t.Errorf("principals %q", c.Principals)
	case NamePrincipals(c, []string{"arn:0"}):
		t.Error("a known one is new")
	case !NamePrincipals(c, many) || len(c.Principals) != maxPrincipals:
		t.Errorf("principals %q", c.Principals)
	case NamePrincipals(&v1alpha1.IdentityConflict{}, many), NamePrincipals(nil, many):
		t.Error("a conflict that is over has principals")
	}
}
