package stories_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline-dev/plumbline/tests/stories/workload"
)

// fewest is the fewest pods of a workload that were available since it is watched.
type fewest struct {
	mu   sync.Mutex
	pods int32
	err  error
}

// availableCommand is `available NAME watch` and `available NAME >= N`.
func (s *story) availableCommand(_ *testscript.TestScript, args []string) error {
	switch {
	case len(args) == 2 && args[1] == "watch":
		return s.watchAvailable(args[0])
	case len(args) != 3 || args[1] != ">=" || s.available[args[0]] == nil:
		return errors.New("usage: available NAME watch, and then available NAME >= N")
	}
	want, err := strconv.Atoi(args[2])
	if err != nil {
		return fmt.Errorf("read how many are to be available: %w", err)
	}
	seen := s.available[args[0]]
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.err != nil || int(seen.pods) < want {
		return errors.Join(fmt.Errorf("%d pods of %s were available at the least, want %d", seen.pods, args[0], want), seen.err)
	}
	return nil
}

func (s *story) watchAvailable(name string) error {
	deployments := s.c.Kube.Client.AppsV1().Deployments(workload.Namespace)
	d, err := deployments.Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	seen := &fewest{pods: d.Status.AvailableReplicas}
	if s.available == nil {
		s.available = map[string]*fewest{}
	}
	s.available[name] = seen
	watching, err := deployments.Watch(s.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: d.ResourceVersion})
	if err != nil {
		return err
	}
	go seen.follow(s.ctx, watching)
	return nil
}

func (f *fewest) follow(ctx context.Context, watching watch.Interface) {
	defer watching.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-watching.ResultChan():
			d, is := event.Object.(*appsv1.Deployment)
			f.mu.Lock()
			switch {
			case !open || !is:
				f.err = errors.New("the watch of the Deployment has ended")
				f.mu.Unlock()
				return
			case event.Type == watch.Modified:
				f.pods = min(f.pods, d.Status.AvailableReplicas)
			}
			f.mu.Unlock()
		}
	}
}
