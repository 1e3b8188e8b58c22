package account

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

var errUnreachable = errors.New("no route")

// aws is an account, or the errors that it returns.
type aws struct {
	Cloud
	cluster cloud.Cluster
	err     error
	running []cloud.Instance
	// silence is why EC2 returns no complete response.
	silence error
	asked   int
	// patience is how long the callers would have waited, in the order of the queries; 0 means forever.
	patience []time.Duration
}

func (f *aws) Cluster(ctx context.Context, _ string) (cloud.Cluster, error) {
	f.asked++
	f.note(ctx)
	return f.cluster, f.err
}

func (f *aws) Instances(ctx context.Context, _ cloud.Query) ([]cloud.Instance, error) {
	f.note(ctx)
	return f.running, f.silence
}

func (f *aws) note(ctx context.Context) {
	patience := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	f.patience = append(f.patience, patience)
}

func pemOf(der string) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})
}

// prodEU returns the EKS cluster prod-eu with a certificate authority.
func prodEU(authority string) cloud.Cluster {
	return cloud.Cluster{Name: "prod-eu", ARN: "arn:" + authority, CertificateAuthority: pemOf(authority)}
}

// asker creates the Steps of one NodeSync, whose API server has the authority "ours".
type asker struct {
	aws    *aws
	memory Memory
	now    time.Time
}

func newAsker(f *aws) *asker {
	return &asker{aws: f, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func (a *asker) step() *Step {
	return &Step{
		Cloud:                func(context.Context, string) (Cloud, error) { return a.aws, nil },
		CertificateAuthority: pemOf("ours"), Memory: &a.memory,
		Name: "prod-eu", Region: "eu-west-1", Generation: 1,
		Now: a.now, Interval: 10 * time.Second, Retry: time.Minute, QueryTimeout: time.Second,
	}
}

// TestWhenAWSIsAskedAgain checks that a bad answer is soon queried again, a good one is valid for a while, and an
// answer about another cluster does not count.
func TestWhenAWSIsAskedAgain(t *testing.T) {
	good, bad := prodEU("ours"), prodEU("theirs")
	draining := func(s *Step) { s.Removals = []v1alpha1.Removal{{Phase: v1alpha1.RemovalDraining}} }
	for name, c := range map[string]struct {
		answer cloud.Cluster
		after  time.Duration
		change func(*Step)
		asked  bool
	}{
		"bad, soon after":                   {answer: bad, after: time.Minute - 1},
		"bad, a minute after":               {answer: bad, after: time.Minute, asked: true},
		"good, minutes after":               {answer: good, after: goodFor - 1},
		"good, long after":                  {answer: good, after: goodFor, asked: true},
		"good, while nodes end":             {answer: good, after: 10 * time.Second, change: draining, asked: true},
		"good, while nodes end, soon after": {answer: good, after: 9 * time.Second, change: draining},
		"of another name":                   {answer: good, change: func(s *Step) { s.Name = "prod-us" }, asked: true},
		"of another region":                 {answer: good, change: func(s *Step) { s.Region = "eu-west-2" }, asked: true},
		"of another spec":                   {answer: good, change: func(s *Step) { s.Generation = 2 }, asked: true},
		"the clock was put back":            {answer: good, after: -time.Hour, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsker(&aws{cluster: c.answer})
			first := a.step()
			if verdict := first.Verify(t.Context()); a.aws.asked != 1 || verdict.OK != (c.answer.ARN == good.ARN) || first.WakeAt.IsZero() != verdict.OK {
				t.Fatalf("asked %d times: %+v, again at %s", a.aws.asked, verdict, first.WakeAt)
			}
			a.now = a.now.Add(c.after)
			s := a.step()
			if c.change != nil {
				c.change(s)
			}
			verdict := s.Verify(t.Context())
			if asked := a.aws.asked == 2; asked != c.asked {
				t.Errorf("asked again: %t", asked)
			}
			if want := first.Now.Add(time.Minute); !c.asked && !verdict.OK && !s.WakeAt.Equal(want) {
				t.Errorf("again at %s, want %s", s.WakeAt, want)
			}
		})
	}
}

// TestAChangeNeedsAFreshAnswer checks that a good answer is queried again, and that a bad one is not queried sooner
// than usual.
func TestAChangeNeedsAFreshAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		answer cloud.Cluster
		after  time.Duration
		asked  int
	}{
		"good, within the interval": {prodEU("ours"), 5 * time.Second, 1},
		"good, after the interval":  {prodEU("ours"), 10 * time.Second, 2},
		"bad, after the interval":   {prodEU("theirs"), 10 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsker(&aws{cluster: c.answer})
			a.step().Verify(t.Context())
			a.now, a.aws.cluster = a.now.Add(c.after), prodEU("theirs")
			verdict := a.step().Confirm(t.Context())
			if a.aws.asked != c.asked || verdict.OK != (c.asked == 1 && c.answer.ARN == "arn:ours") {
				t.Errorf("asked %d times, want %d: %+v", a.aws.asked, c.asked, verdict)
			}
		})
	}
}

// TestTheClustersARN checks that the ARN is recorded for the queried name, if AWS returned one.
func TestTheClustersARN(t *testing.T) {
	a := newAsker(&aws{cluster: prodEU("ours")})
	verdict := a.step().Verify(t.Context())
	noted := func(name string, verdict *cloud.Verdict) string {
		k := &v1alpha1.KarpenterStatus{Cluster: name, Region: "eu-west-1"}
		a.memory.Note(k, verdict)
		return k.GetClusterARN()
	}
	if got := noted("prod-eu", &verdict); got != "arn:ours" {
		t.Errorf("ARN %q", got)
	}
	if got := noted("prod-us", &verdict); got != "" {
		t.Errorf("of another name: %q", got)
	}
	if got := noted("prod-eu", nil); got != "" {
		t.Errorf("before it was asked: %q", got)
	}
	a.aws.err, a.now = errUnreachable, a.now.Add(time.Hour)
	denied := a.step().Verify(t.Context())
	if got := noted("prod-eu", &denied) + noted("prod-eu", &verdict); got != "" {
		t.Errorf("AWS does not answer: %q", got)
	}
}

// TestACloudThatHangsHoldsUpNoPass checks that the two queries together take no longer than the reconcile's timeout,
// and at most 15 seconds.
func TestACloudThatHangsHoldsUpNoPass(t *testing.T) {
	for name, c := range map[string]struct{ timeout, most time.Duration }{
		"a long timeout":  {time.Hour, maxQueryTimeout},
		"a short timeout": {4 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAsker(&aws{err: errUnreachable})
			s := a.step()
			s.QueryTimeout = QueryTimeout(c.timeout)
			s.Verify(t.Context())
			clouds := Clouds{Dial: func(context.Context, string) (Cloud, error) { return a.aws, nil }}
			within, err := clouds.Within(s.QueryTimeout)(t.Context(), "eu-west-1")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := within.Instances(t.Context(), cloud.Query{}); err != nil {
				t.Fatal(err)
			}
			var sum time.Duration
			for _, patience := range a.aws.patience {
				if patience == 0 {
					t.Error("a question is waited for without end")
				}
				sum += patience
			}
			if len(a.aws.patience) != 2 || sum > c.most {
				t.Errorf("questions may take %s, in all at most %s", a.aws.patience, c.most)
			}
		})
	}
}

// TestWhatCannotBeTakenBackNeedsAFreshAnswer checks that the account is queried each time in the phases in which a
// removal deletes NodeClaims or relies on EC2.
func TestWhatCannotBeTakenBackNeedsAFreshAnswer(t *testing.T) {
	fresh := map[v1alpha1.RemovalPhase]bool{v1alpha1.RemovalPacing: true, v1alpha1.RemovalDraining: true, v1alpha1.RemovalVerifyingCloud: true}
	for _, phase := range []v1alpha1.RemovalPhase{
		v1alpha1.RemovalHeld, v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud, v1alpha1.RemovalFinalizing,
	} {
		if got := mayTerminate([]v1alpha1.Removal{{Phase: phase}}); got != fresh[phase] {
			t.Errorf("%s: fresh = %t, want %t", phase, got, fresh[phase])
		}
	}
}

// TestTheAccountIsAskedAboutTheSameInstances checks that the query does not depend on the order of the cache, so that a
// condition is stable.
func TestTheAccountIsAskedAboutTheSameInstances(t *testing.T) {
	var claims []plan.NodeClaim
	for i := range 3 * maxProviderIDs {
		claims = append(claims, plan.NodeClaim{ProviderID: fmt.Sprintf("aws:///eu-west-1a/i-%03d", i), Deleting: i == 1})
	}
	var want []string
	for range 3 {
		got := providerIDs(claims)
		if len(got) != maxProviderIDs || slices.Contains(got, "aws:///eu-west-1a/i-001") {
			t.Errorf("asked about %v", got)
		}
		if diff := cmp.Diff(want, got); want != nil && diff != "" {
			t.Errorf("the order of the NodeClaims changes the question (-before +after):\n%s", diff)
		}
		want = got
		claims = append(claims[len(claims)/2:], claims[:len(claims)/2]...)
		slices.Reverse(claims[:10])
	}
}

// TestAccountOfADisruptedZone checks that the account is verified if EC2 fails but returns one of the live instances
// anyway.
func TestAccountOfADisruptedZone(t *testing.T) {
	for shown, want := range map[string]string{"i-1": cloud.ReasonVerified, "": "Failed"} {
		a := newAsker(&aws{cluster: prodEU("ours"), silence: errUnreachable})
		if shown != "" {
			a.aws.running = []cloud.Instance{{ID: shown}}
		}
		s := a.step()
		s.Claims = []plan.NodeClaim{{Name: "a", ProviderID: "aws:///eu-west-1a/i-1"}, {Name: "b", ProviderID: "aws:///eu-west-1b/i-2"}}
		if got := s.Verify(t.Context()); got.Reason != want {
			t.Errorf("with %q shown: %+v, want %s", shown, got, want)
		}
	}
}

func (*aws) Grant(context.Context, string, cloud.ServiceAccount) (cloud.Grant, error) {
	return cloud.Grant{}, nil
}

func (*aws) TerminationProtected(context.Context, string) (bool, error) { return false, nil }
func (*aws) Trail(context.Context, string, time.Time, time.Time, int) ([]cloud.TrailCall, error) {
	return nil, nil
}

func (*aws) SetTerminationProtection(context.Context, string, bool) error { return nil }
func (*aws) UserData(context.Context, string) (string, error)             { return "", nil }

func (*aws) Catalog(context.Context) (*offers.Catalog, error) {
	return nil, errors.New("no instance types")
}

func (*aws) AttachedVolumes(context.Context, string) ([]cloud.Resource, error) { return nil, nil }
func (*aws) LeftBehind(context.Context, string, bool) ([]cloud.Answer, error)  { return nil, nil }
