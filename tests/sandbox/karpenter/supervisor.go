package karpenter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// Selector selects the pods of the chart's Deployment, in any namespace.
const Selector = "app.kubernetes.io/name=karpenter"

// Options specify what a Supervisor runs.
type Options struct {
	Client   kubernetes.Interface
	Programs Starter
	// Credentials writes a pod's kubeconfig.
	Credentials Credentials
	// Pull returns the program for an image with a tag, without a leading v. The error may be ErrNoImage.
	Pull func(ctx context.Context, tag string) (path string, err error)
	// Env is added to a pod's own environment, as by a pod identity agent: AWS endpoint, region and credentials. The
	// pod's own takes precedence.
	Env map[string]string
	// Identity returns what EKS's webhooks add to the environment of a pod, whose folder is dir. Optional.
	Identity func(ctx context.Context, dir string, pod *corev1.Pod) (map[string]string, error)
	// Dir contains a folder for each pod, with its log and its kubeconfig.
	Dir string
	// Logger logs what is started and stopped. Optional.
	Logger *slog.Logger
}

// Starter starts programs; process.Group is one.
type Starter interface {
	Start(process.Spec) (*process.Process, error)
}

// Credentials writes, at path, a kubeconfig of a ServiceAccount whose token is bound to the pod; kube.ControlPlane
// implements it.
type Credentials interface {
	ServiceAccountKubeconfig(ctx context.Context, path, namespace, name string, pod *corev1.Pod) error
}

// Supervisor runs the pods of Karpenter's Deployment.
type Supervisor struct {
	options Options
	cancel  context.CancelFunc
	running sync.WaitGroup
	events  record.EventBroadcaster

	mu      sync.Mutex
	workers map[types.UID]*worker
}

// Start returns once the existing pods are known. If ctx is done, the processes are killed; Stop kills them and waits.
func Start(ctx context.Context, options Options) (*Supervisor, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Supervisor{options: options, cancel: cancel, workers: map[types.UID]*worker{}, events: recording(options.Client)}
	if err := s.watch(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Supervisor) watch(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(s.options.Client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = Selector }))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.seen(ctx, o) },
		UpdateFunc: func(_, o any) { s.seen(ctx, o) },
		DeleteFunc: s.deleted,
	})
	if err != nil {
		return fmt.Errorf("watch Karpenter's pods: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return fmt.Errorf("list Karpenter's pods: %w", ctx.Err())
	}
	return nil
}

// Stop kills all processes. The pods stay as they are.
func (s *Supervisor) Stop() {
	s.cancel()
	s.mu.Lock()
	for _, w := range s.workers {
		w.kill()
	}
	s.mu.Unlock()
	s.running.Wait()
	s.events.Shutdown()
}

func (s *Supervisor) seen(ctx context.Context, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil { // Stop has stopped the existing ones
		return
	}
	w := s.workers[pod.UID]
	if w == nil {
		w = newWorker(s.options, pod, kubelet(s.events, pod))
		s.workers[pod.UID] = w
		s.running.Go(func() { w.run(ctx) })
	}
	w.shown(pod)
	if pod.DeletionTimestamp != nil {
		w.terminate(grace(pod))
	}
}

func (s *Supervisor) deleted(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workers[pod.UID]; w != nil {
		w.kill()
		delete(s.workers, pod.UID)
	}
}

func grace(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}

// Instance is a running controller.
type Instance struct {
	Pod, Namespace, Node string
	PID                  int
	// Metrics and Health are the URLs of its two servers.
	Metrics, Health string
	// Log is the file of its log.
	Log string
}

// Instances returns the running controllers.
func (s *Supervisor) Instances() []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Instance
	for _, w := range s.workers {
		if i := w.instance.Load(); i != nil {
			all = append(all, *i)
		}
	}
	return all
}

// Pause stops the processes of the controllers with SIGSTOP, like a controller that hangs: its probes still succeed, so
// its pods stay Ready. Continue resumes them.
func (s *Supervisor) Pause() error { return s.signal(syscall.SIGSTOP, true) }

// Continue resumes paused controllers.
func (s *Supervisor) Continue() error { return s.signal(syscall.SIGCONT, false) }

func (s *Supervisor) signal(sent syscall.Signal, paused bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failures []error
	found := false
	for _, w := range s.workers {
		if i := w.instance.Load(); i != nil {
			found = true
			w.paused.Store(paused)
			failures = append(failures, syscall.Kill(i.PID, sent))
		}
	}
	if !found {
		return errors.New("no controller runs")
	}
	return errors.Join(failures...)
}
