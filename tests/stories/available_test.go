package stories_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/plumbline-dev/plumbline/tests/stories/workload"
)

// fewest is the minimum number of pods of a workload that were available since the watch started, and of those serving:
// Ready, including those terminating within their grace period, sampled every 200 ms.
type fewest struct {
	mu            sync.Mutex
	pods, serving int32
	err           error
}

// availableCommand is `available NAME watch`, `available NAME >= N` and `available NAME serving >= N`.
func (s *story) availableCommand(_ *testscript.TestScript, args []string) error {
	serving := false
	switch {
	case len(args) == 2 && args[1] == "watch":
		return s.watchAvailable(args[0])
	case len(args) == 4 && args[1] == "serving":
		args = append(args[:1:1], args[2:]...)
		serving = true
	}
	if len(args) != 3 || args[1] != ">=" || s.available[args[0]] == nil {
		return errors.New("usage: available NAME watch, and then available NAME [serving] >= N")
	}
	want, err := strconv.Atoi(args[2])
	if err != nil {
		return fmt.Errorf("read how many are to be available: %w", err)
	}
	seen := s.available[args[0]]
	seen.mu.Lock()
	defer seen.mu.Unlock()
	found := seen.pods
	if serving {
		found = seen.serving
	}
	if seen.err != nil || int(found) < want {
		return errors.Join(fmt.Errorf("%d pods of %s were available at the least, and %d serving, want %d", seen.pods, args[0], seen.serving, want), seen.err)
	}
	return nil
}

func (s *story) watchAvailable(name string) error {
	deployments := s.c.Kube.Client.AppsV1().Deployments(workload.Namespace)
	d, err := deployments.Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	seen := &fewest{pods: d.Status.AvailableReplicas, serving: d.Status.AvailableReplicas}
	if s.available == nil {
		s.available = map[string]*fewest{}
	}
	s.available[name] = seen
	watching, err := deployments.Watch(s.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, ResourceVersion: d.ResourceVersion})
	if err != nil {
		return err
	}
	go seen.follow(s.ctx, watching)
	go seen.sample(s.ctx, s.c.Kube.Client.CoreV1().Pods(workload.Namespace), name)
	return nil
}

// sample counts the pods that are Ready.
func (f *fewest) sample(ctx context.Context, pods typedcorev1.PodInterface, name string) {
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		found, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
		if ctx.Err() != nil {
			return
		}
		ready := int32(0)
		for i := range found.Items {
			if slices.ContainsFunc(found.Items[i].Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				ready++
			}
		}
		f.mu.Lock()
		if f.err = errors.Join(f.err, err); err == nil {
			f.serving = min(f.serving, ready)
		}
		f.mu.Unlock()
	}
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
