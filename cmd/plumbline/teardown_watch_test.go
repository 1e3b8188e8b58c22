package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// stoodIn is a stand-in for the daemon that does nothing: it records how it was started, and whether it was stopped.
type stoodIn struct {
	config    *rest.Config
	namespace string
	uid       types.UID
	// installs records for each start whether it only installs Karpenter's charts.
	installs []bool
	stopped  bool
	// begun is called when it starts, howToContinue when Karpenter is installed; fails is why it stops on its own.
	begun, goesOn func()
	fails         error
}

func (s *stoodIn) start(_ context.Context, config *rest.Config, sync *v1alpha1.NodeSync, installs bool, _ steppoint.Options) (*standIn, error) {
	s.config, s.namespace, s.uid = config, sync.Namespace, sync.UID
	s.installs = append(s.installs, installs)
	in := &standIn{ended: make(chan struct{}), err: s.fails, installed: s.goesOn}
	in.stop = func() {
		if !s.stopped {
			s.stopped = true
			close(in.ended)
		}
	}
	if s.begun != nil {
		s.begun()
	}
	if s.fails != nil {
		in.stop()
	}
	return in, nil
}

// undaemoned is a cluster whose daemon was stopped, or has died; a deleted NodeSync is never removed.
func undaemoned(t *testing.T, dead bool) (*apiServer, string) {
	t.Helper()
	s, _, kubeconfig := tornDown(t)
	s.objects[leasePath] = leaseOf("", time.Hour)
	if dead {
		s.objects[leasePath] = lasting(leaseOf("pod-1_a", 0), 0)
	}
	s.deleted = func(s *apiServer, at string) {
		s.objects[at].(*v1alpha1.NodeSync).DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return s, kubeconfig
}

// TestTeardownStandsIn: if no daemon leads, the command terminates the nodes, with an identity that may, and stops the
// reconciles before it queries AWS.
func TestTeardownStandsIn(t *testing.T) {
	const daemon = "system:serviceaccount:fleet:plumbline"
	for name, c := range map[string]struct {
		dead    bool
		deleter string
		says    string
	}{
		"the daemon was stopped":  {false, "", "no daemon leads: lease fleet/plumbline was released, and no pod of plumbline is Ready there: this command takes the lease and terminates the nodes itself\n"},
		"the daemon has died":     {true, "", "expired: this command takes the lease and terminates the nodes itself\n"},
		"definitions are guarded": {false, daemon, "terminates the nodes itself, as " + daemon + ", which the deletion guard lets delete\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, kubeconfig := undaemoned(t, c.dead)
			s.deleter = c.deleter
			in := &stoodIn{}
			in.begun = func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.objects, syncPath+"prod")
			}
			got := teardownBy(t.Context(), t, in.start, awsAnswers(runningLeft, otherLeft), "prod", "--yes", "--kubeconfig", kubeconfig)
			if got.code != exitDone || !strings.Contains(got.out, c.says) {
				t.Errorf("code %d, prints %s: %s", got.code, got.out, got.err)
			}
			if in.namespace != "fleet" || in.uid != "uid-1" || !in.stopped || in.config == nil || in.config.Impersonate.UserName != c.deleter {
				t.Errorf("stood in by %+v", in)
			}
		})
	}
}

// TestTeardownStandsInNoMore: how the stand-in is stopped, and what is printed if it stops on its own.
func TestTeardownStandsInNoMore(t *testing.T) {
	const goesOn = "the lease is released, and the teardown waits for a daemon or for this command. To continue:\n  plumbline teardown prod -n fleet --yes --cluster demo"
	for name, c := range map[string]struct {
		fails   error
		stop    bool
		timeout string
		code    int
		says    string
	}{
		"Ctrl-C":                 {nil, true, "1h", exitFailed, "stopped; " + goesOn},
		"the time is over":       {nil, false, "50ms", exitStalled, "nodesync/prod is not gone after 50ms: "},
		"another took the lease": {errors.New("leader election lost"), false, "1h", exitFailed, "leader election lost; " + goesOn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, kubeconfig := undaemoned(t, false)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			in := &stoodIn{fails: c.fails}
			if c.stop {
				in.begun = stop
			}
			got := teardownBy(ctx, t, in.start, awsAnswers(runningLeft), "prod", "--yes", "--timeout", c.timeout, "--kubeconfig", kubeconfig)
			if got.code != c.code || !strings.Contains(got.err, c.says) || !strings.Contains(got.err, goesOn) || !in.stopped {
				t.Errorf("code %d, stopped %v, says %s", got.code, in.stopped, got.err)
			}
		})
	}
}

// TestTeardownMayNotStandIn: a user who may neither terminate the nodes nor act as the daemon changes nothing.
func TestTeardownMayNotStandIn(t *testing.T) {
	s, kubeconfig := undaemoned(t, false)
	s.undeletable = true
	got := teardownWith(t.Context(), t, awsAnswers(runningLeft), "prod", "--yes", "--kubeconfig", kubeconfig)
	want := "or get permission to impersonate serviceaccounts/plumbline in namespace fleet"
	if got.code != exitFailed || !strings.Contains(got.err, want) {
		t.Errorf("code %d, says %s", got.code, got.err)
	}
	if slices.ContainsFunc(s.changes(), func(c string) bool { return strings.HasSuffix(c, syncPath+"prod") }) {
		t.Errorf("writes %v", s.changes())
	}
}
