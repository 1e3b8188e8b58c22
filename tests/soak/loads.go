package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/stories/workload"
)

// load is a workload: the number of pods, and the pool that they have to run in; if empty, any.
type load struct {
	replicas int32
	pool     string
}

// placed reports whether its pods have a pool to run in.
func (l load) placed(f fleet) bool {
	return l.replicas > 0 && (l.pool == "" || f.has(nodePools, l.pool))
}

// mostLoads, with up to three pods each, is what the machine can run.
const mostLoads = 3

// scaleLoad changes how many pods a workload has, or recreates it elsewhere.
func (s *soak) scaleLoad(ctx context.Context) (string, error) {
	name := fmt.Sprintf("w%d", s.draw.IntN(mostLoads))
	next := load{replicas: s.draw.Int32N(4), pool: s.loads[name].pool}
	if s.loads[name].replicas == 0 {
		next.pool = s.pick(append(s.fleet.poolNames(), ""))
	}
	if next == s.loads[name] {
		return "", nil
	}
	s.loads[name] = next
	return fmt.Sprintf("%s: %d pods in pool %q", name, next.replicas, next.pool), s.scale(ctx, name, next)
}

// scale writes a workload's Deployment.
func (s *soak) scale(ctx context.Context, name string, l load) error {
	deployments := s.sandbox.Kube.Client.AppsV1().Deployments(workload.Namespace)
	if l.replicas == 0 {
		err := deployments.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	wanted := workload.Deployment(name, l.replicas, l.pool)
	_, err := deployments.Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = deployments.Update(ctx, wanted, metav1.UpdateOptions{})
	}
	return err
}

const (
	lookEvery = 500 * time.Millisecond
	// restWithin is how long everything may take to become quiet once nothing disturbs it.
	restWithin = 5 * time.Minute
)

// until calls look repeatedly until it finds nothing missing.
func (s *soak) until(ctx context.Context, look func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, lookEvery, restWithin, true, func(ctx context.Context) (bool, error) {
		err := look(ctx)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		if errors.Is(err, errViolation) {
			return false, err
		}
		return err == nil, nil
	})
	switch {
	case err == nil || errors.Is(err, errViolation):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("within %s, undisturbed: %w", restWithin, last)
}
