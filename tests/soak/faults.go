package soak

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/charts"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// longestFault is how long a fault stands.
const longestFault = 12 * time.Second

// fault is one that stands.
type fault struct {
	name  string
	until time.Time
	end   func(context.Context) error
}

// faults are those that stand.
type faults struct {
	mu       sync.Mutex
	standing []fault
	changed  time.Time // when one last began or ended
}

// add has a fault stand.
func (f *faults) add(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.standing = append(f.standing, one)
	f.changed = time.Now()
}

// take takes out those whose time has come by a moment.
func (f *faults) take(by time.Time) []fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due, left []fault
	for _, one := range f.standing {
		if one.until.After(by) {
			left = append(left, one)
		} else {
			due = append(due, one)
		}
	}
	f.standing = left
	return due
}

// disturb notes that something goes wrong at this moment alone.
func (f *faults) disturb() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = time.Now()
}

// quietSince says whether no fault stands, and since when.
func (f *faults) quietSince() (since time.Time, quiet bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed, len(f.standing) == 0
}

// next is when the next fault ends.
func (f *faults) next() (at time.Time, any bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.standing {
		if !any || one.until.Before(at) {
			at, any = one.until, true
		}
	}
	return at, any
}

// stands says whether one of these names stands.
func (f *faults) stands(names ...string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.standing, func(one fault) bool { return slices.Contains(names, one.name) })
}

// letStand has a fault end after a while that is drawn.
func (s *soak) letStand(name string, end func(context.Context) error) time.Duration {
	d := time.Second + time.Duration(s.draw.Int64N(int64(longestFault-time.Second)))
	s.faults.add(fault{name: name, until: time.Now().Add(d), end: end})
	return d.Round(100 * time.Millisecond)
}

// endFaults ends those whose time has come by a moment.
func (s *soak) endFaults(ctx context.Context, by time.Time) error {
	for _, f := range s.faults.take(by) {
		if err := f.end(ctx); err != nil {
			return fmt.Errorf("end %s: %w", f.name, err)
		}
		s.journal.say("%-14s is over", f.name)
	}
	s.faults.disturb()
	return nil
}

// The daemon's own.
const (
	killed = "kill"
	paused = "freeze"
)

func (s *soak) startDaemon(ctx context.Context) error {
	ports, err := process.FreePorts(1)
	if err != nil {
		return err
	}
	s.metrics = fmt.Sprintf("127.0.0.1:%d", ports[0])
	return s.daemon.Start(ctx, "--metrics-addr="+s.metrics)
}

func (s *soak) killDaemon(context.Context) (string, error) {
	if s.faults.stands(killed, paused) {
		return "", nil
	}
	if err := s.daemon.Kill(); err != nil {
		return "", err
	}
	return fmt.Sprintf("for %s", s.letStand(killed, s.startDaemon)), nil
}

func (s *soak) stopDaemon(context.Context) (string, error) {
	if s.faults.stands(killed, paused) {
		return "", nil
	}
	if err := s.daemon.Stop(); err != nil {
		return "", err
	}
	return fmt.Sprintf("for %s", s.letStand(killed, s.startDaemon)), nil
}

func (s *soak) freezeDaemon(context.Context) (string, error) {
	if s.faults.stands(killed, paused) {
		return "", nil
	}
	if err := s.daemon.Pause(); err != nil {
		return "", err
	}
	return fmt.Sprintf("for %s", s.letStand(paused, func(context.Context) error { return s.daemon.Continue() })), nil
}

// faultAWS makes calls to AWS go wrong, those of plumbline or those of all. What
// Karpenter is denied, it is not denied for good: it would give up an instance.
func (s *soak) faultAWS(context.Context) (string, error) {
	who := s.pick([]string{"plumbline", "anyone"})
	f := awssim.Fault{
		Service: "ec2", Action: s.pick([]string{"*", "Describe*", "DescribeInstances", "TerminateInstances"}),
		Kind: awssim.FaultKind(s.pick([]string{string(awssim.Throttle), string(awssim.Delay), string(awssim.LoseResponse), string(awssim.Deny)})),
	}
	if who == "plumbline" {
		f.AccessKey = s.sandbox.AWSVariables()["AWS_ACCESS_KEY_ID"]
	}
	if f.Kind == awssim.Delay {
		f.Duration = awssim.Duration(time.Duration(1+s.draw.IntN(4)) * time.Second)
	}
	made, err := s.sandbox.AWS.AddFault(f)
	if err != nil {
		return "", err
	}
	d := s.letStand("aws-fault", func(context.Context) error {
		s.sandbox.AWS.RemoveFaults(made.ID)
		return nil
	})
	return fmt.Sprintf("%s of %s's calls %s for %s", f.Kind, who, f.Action, d), nil
}

// faultCharts has the registry fail. The daemon has the charts in its cache.
func (s *soak) faultCharts(context.Context) (string, error) {
	if s.faults.stands("chart-fault") {
		return "", nil
	}
	end := s.sandbox.Charts.Inject(charts.Fault{Status: http.StatusBadGateway})
	return fmt.Sprintf("for %s", s.letStand("chart-fault", func(context.Context) error {
		end()
		return nil
	})), nil
}

// scaleController takes Karpenter away for a while.
func (s *soak) scaleController(ctx context.Context) (string, error) {
	const name = "no-controller"
	if s.faults.stands(name) {
		return "", nil
	}
	if err := s.setReplicas(ctx, 0); err != nil {
		return "", err
	}
	return fmt.Sprintf("for %s", s.letStand(name, func(ctx context.Context) error { return s.setReplicas(ctx, 1) })), nil
}

func (s *soak) setReplicas(ctx context.Context, replicas int) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := s.sandbox.Kube.Client.AppsV1().Deployments(sandbox.ChartNamespace).Patch(ctx, "karpenter", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// editByHand changes a pool in the cluster, as someone in a hurry does.
func (s *soak) editByHand(ctx context.Context) (string, error) {
	name := s.pick(s.fleet.poolNames())
	patch := fmt.Appendf(nil, `{"spec":{"weight":%d}}`, 1+s.draw.IntN(99))
	s.faults.disturb()
	_, err := s.sandbox.Kube.Kubectl(ctx, nil, "patch", "nodepool", name, "--type=merge", "-p", string(patch), "--field-manager=kubectl-edit")
	if err != nil {
		return fmt.Sprintf("of pool %s, which is not there yet", name), nil //nolint:nilerr // Git may be ahead of the cluster
	}
	return "the weight of pool " + name, nil
}
