package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// fakeLease is a lease as the API server returns it.
type fakeLease struct {
	resourcelock.Interface
	record resourcelock.LeaderElectionRecord
	err    error
	asked  int
}

func (f *fakeLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	f.asked++
	return &f.record, nil, f.err
}
func (f *fakeLease) Identity() string { return "us" }
func (f *fakeLease) Describe() string { return "plumbline-system/plumbline" }

func lease(holder string, renewed time.Time) *fakeLease {
	return &fakeLease{record: resourcelock.LeaderElectionRecord{
		HolderIdentity: holder, LeaseDurationSeconds: 10, RenewTime: metav1.NewTime(renewed),
	}}
}

// oldLease is renewed before each of the first reads, and not after that.
type oldLease struct {
	fakeLease
	renewals int
	// released is the number of reads before it was released.
	released int
}

func (o *oldLease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if o.asked < o.renewals {
		o.record.RenewTime = metav1.NewTime(o.record.RenewTime.Add(time.Second))
	}
	return o.fakeLease.Get(ctx)
}

func (o *oldLease) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	o.record, o.released = record, o.asked
	return nil
}

// TestAnOldLeaseIsReleased: a daemon without leader election releases a lease that is not renewed; otherwise commands
// would report that no daemon leads.
func TestAnOldLeaseIsReleased(t *testing.T) {
	for name, c := range map[string]struct {
		holder   string
		err      error
		renewals int
		released int
	}{
		"left over":                {holder: "gone", released: 2},
		"of one that still renews": {holder: "other", renewals: 4, released: 5},
		"released":                 {},
		"there is none":            {holder: "gone", err: apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "plumbline")},
	} {
		t.Run(name, func(t *testing.T) {
			l := &oldLease{fakeLease: *lease(c.holder, time.Now()), renewals: c.renewals}
			l.err = c.err
			if err := (releaseOld{lease: l, every: time.Microsecond}).Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if l.released != c.released || c.released > 0 && l.record.HolderIdentity != "" {
				t.Errorf("released at look %d, want %d; holder %q", l.released, c.released, l.record.HolderIdentity)
			}
		})
	}
}

func TestHeld(t *testing.T) {
	now := time.Now()
	cases := map[string]struct {
		lease *fakeLease
		ours  bool
	}{
		"ours":            {lease("us", now.Add(-9*time.Second)), true},
		"another's":       {lease("them", now), false},
		"run out":         {lease("us", now.Add(-11*time.Second)), false},
		"cannot be asked": {&fakeLease{err: errors.New("no route")}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := held(t.Context(), c.lease, now); (err == nil) != c.ours {
				t.Errorf("held: %v, want ours %t", err, c.ours)
			}
		})
	}
}

func TestStillLeaderTrustsOnlyAGoodAnswer(t *testing.T) {
	good := lease("us", time.Now())
	ask := stillLeader(good)
	for range 3 {
		if err := ask(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if good.asked != 1 {
		t.Errorf("asked %d times within the time a good answer holds, want once", good.asked)
	}
	bad := lease("them", time.Now())
	ask = stillLeader(bad)
	for range 2 {
		if err := ask(t.Context()); err == nil {
			t.Fatal("another's lease counts as ours")
		}
	}
	if bad.asked != 2 {
		t.Errorf("asked %d times after bad answers, want each time", bad.asked)
	}
}

// roundTripper records the requests.
type roundTripper struct{ sent []string }

func (r *roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	r.sent = append(r.sent, request.Method)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestFence: without the lease, reads are sent and writes are not; a read does not check the lease.
func TestFence(t *testing.T) {
	lost := errors.New("the lease is another's")
	cases := map[string]struct {
		method string
		leader error
		sent   bool
		asks   int
	}{
		"a read":                   {http.MethodGet, nil, true, 0},
		"a read without the lease": {http.MethodGet, lost, true, 0},
		"a patch":                  {http.MethodPatch, nil, true, 1},
		"a patch without":          {http.MethodPatch, lost, false, 1},
		"a delete without":         {http.MethodDelete, lost, false, 1},
		"a create without":         {http.MethodPost, lost, false, 1},
		"an update without":        {http.MethodPut, lost, false, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			asked, next := 0, &roundTripper{}
			f := &leaseGuard{next: next, stillLeader: func(context.Context) error {
				asked++
				return c.leader
			}}
			body := &closed{}
			request, err := http.NewRequestWithContext(t.Context(), c.method, "https://10.0.0.1/api", body)
			if err != nil {
				t.Fatal(err)
			}
			response, err := f.RoundTrip(request)
			if err == nil {
				_ = response.Body.Close()
			}
			if sent := len(next.sent) == 1; sent != c.sent || asked != c.asks || (err == nil) != c.sent {
				t.Errorf("sent %t, want %t; asked %d times, want %d; %v", sent, c.sent, asked, c.asks, err)
			}
			if !c.sent && (!errors.Is(err, lost) || !body.done) {
				t.Errorf("refused with %v, body closed: %t", err, body.done)
			}
		})
	}
}

// closed is a body that records that it was closed.
type closed struct{ done bool }

func (*closed) Read([]byte) (int, error) { return 0, io.EOF }
func (c *closed) Close() error {
	c.done = true
	return nil
}

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/fleet/leases/plumbline"

// leaseOf returns the leader's lease, renewed this long ago.
func leaseOf(holder string, ago time.Duration) map[string]any {
	return map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": "plumbline", "namespace": "fleet"},
		"spec":     map[string]any{"holderIdentity": holder, "leaseDurationSeconds": 10, "renewTime": metav1.NewMicroTime(time.Now().Add(-ago))},
	}
}

// lasting returns a lease with another duration; with 0 seconds, it has no times either.
func lasting(lease map[string]any, seconds int) map[string]any {
	spec := lease["spec"].(map[string]any)
	spec["leaseDurationSeconds"] = seconds
	if seconds == 0 {
		delete(spec, "leaseDurationSeconds")
		delete(spec, "renewTime")
	}
	return lease
}

// TestWithoutADaemon: while no daemon leads, a status is out of date, and the command fails.
func TestWithoutADaemon(t *testing.T) {
	cases := map[string]struct {
		lease   any
		renewed func() map[string]any // the lease after it was read
		refused int
		// args are those of the Deployment, if there is one, and pod reports whether its pod is Ready.
		args []any
		pod  bool
		says string
	}{
		"it leads":           {lease: leaseOf("a", time.Second), renewed: func() map[string]any { return leaseOf("a", 0) }},
		"there is no lease":  {},
		"it may not be read": {lease: leaseOf("a", time.Hour), refused: http.StatusForbidden},
		"it was killed":      {lease: leaseOf("pod-1_a", time.Minute), says: "no daemon leads: lease fleet/plumbline of pod-1_a expired 1m"},
		"it stopped": {
			lease: leaseOf("", time.Minute), args: []any{"run", "--leader-elect"},
			says: "no daemon leads: lease fleet/plumbline was released, and no pod of plumbline is Ready there",
		},
		"it restarts":            {lease: leaseOf("", time.Second), args: []any{"run", "--leader-elect"}, pod: true},
		"it elects no leader":    {lease: leaseOf("", time.Hour), args: []any{"run", "--leader-elect=false"}},
		"it is not in a cluster": {lease: leaseOf("", time.Hour)},
		"its clock is behind":    {lease: leaseOf("a", time.Minute), renewed: func() map[string]any { return leaseOf("a", time.Minute-time.Second) }},
		"another's, for days":    {lease: lasting(leaseOf("stranger", time.Minute), 11*24*60*60), says: "no daemon leads: stranger does not renew lease fleet/plumbline, which keeps others from leading for 264h"},
		"of another year":        {lease: leaseOf("stranger", -365*24*time.Hour), says: "no daemon leads: lease fleet/plumbline of stranger is not renewed; its renewTime is 8759h"},
		"without a time":         {lease: lasting(leaseOf("stranger", 0), 0), says: "no daemon leads: lease fleet/plumbline of stranger has expired"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig := serve(t, verdicts()["in-sync"])
			if c.lease != nil {
				s.objects[leasePath] = c.lease
			}
			if c.args != nil {
				s.objects["/apis/apps/v1/namespaces/fleet/deployments/plumbline"] = map[string]any{
					"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "plumbline", "namespace": "fleet"},
					"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "plumbline", "args": c.args}}}}},
				}
			}
			if c.pod {
				s.runDaemon()
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
			case c.says != "" && (got.code != exitFailed || in || !strings.HasPrefix(got.out, c.says) || strings.Contains(got.out, "fetches every")),
				c.says != "" && !strings.Contains(got.out, "; the following may be out of date\nnodesync/prod: unknown\n"):
				t.Errorf("code %d: %s", got.code, got.out)
			}
			got = plumbline(t, "get", "--kubeconfig", kubeconfig)
			if !strings.HasPrefix(got.err, c.says) || (got.err == "") != (c.says == "") || got.code != exitDone {
				t.Errorf("get: code %d, says %q", got.code, got.err)
			}
		})
	}
}

// TestALeaseThatGoesWithItsNamespace: the holder keeps it, unless it may have lost it before.
func TestALeaseThatGoesWithItsNamespace(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	notFound, forbidden := apierrors.NewNotFound(leases, leaseName), apierrors.NewForbidden(leases, leaseName, nil)
	cases := map[string]struct {
		holder string
		// idle is the time between the last read of the lease and its deletion.
		idle  time.Duration
		goes  bool
		err   error
		leads bool
	}{
		"it was ours":                   {holder: "us", idle: time.Second, goes: true, err: notFound, leads: true},
		"the right to read it has gone": {holder: "us", idle: time.Second, goes: true, err: forbidden, leads: true},
		"the namespace stays":           {holder: "us", idle: time.Second, err: notFound},
		"it was another's":              {holder: "them", idle: time.Second, goes: true, err: notFound},
		"it had run out":                {holder: "us", idle: 10 * time.Second, goes: true, err: notFound},
		"it cannot be asked":            {holder: "us", idle: time.Second, goes: true, err: apierrors.NewServiceUnavailable("no")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			inner := lease(c.holder, now)
			l := &lastLease{Interface: inner, seen: &leaseSeen{}, now: func() time.Time { return now }, namespaceGoes: func(context.Context) (bool, error) { return c.goes, nil }}
			if _, _, err := l.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			now, inner.err = now.Add(c.idle), c.err
			if err := held(t.Context(), l, now); (err == nil) != c.leads {
				t.Fatalf("held: %v, want ours %t", err, c.leads)
			}
			if !c.leads {
				return
			}
			// It is renewed for as long as the process runs, and never released.
			now = now.Add(time.Hour)
			if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "us"}); err != nil {
				t.Errorf("renewed: %v", err)
			}
			if err := held(t.Context(), l, now); err != nil {
				t.Errorf("an hour later: %v", err)
			}
		})
	}
}

// TestWhoLeads: another replica's page names the leader.
func TestWhoLeads(t *testing.T) {
	seen := &leaseSeen{}
	for _, holder := range []string{"", "us", "them"} {
		seen.note(resourcelock.LeaderElectionRecord{HolderIdentity: holder}, "us")
		if got := seen.leader(); got != holder {
			t.Errorf("%q leads, want %q", got, holder)
		}
	}
}
