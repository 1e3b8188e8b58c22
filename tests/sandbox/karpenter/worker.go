package karpenter

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// After a crash, the program is restarted after one second, then two, and so on up to half a minute. A kubelet takes
// ten times as long.
var backoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: 30 * time.Second}

// correctEvery is how long to wait until the last write is visible.
const correctEvery = 2 * time.Second

// worker runs one pod from its binding to its deletion.
type worker struct {
	options  Options
	pod      *corev1.Pod
	status   *status
	recorder record.EventRecorder

	instance atomic.Pointer[Instance]
	// unready is true if the pod is shown as not Ready: kube-controller-manager writes that if its node was silent for
	// a while, and a kubelet corrects it.
	unready atomic.Bool
	// paused is true if the process is stopped, but its probes succeed anyway.
	paused    atomic.Bool
	ending    chan struct{} // closed when the pod has to terminate
	gone      chan struct{} // closed when the pod is gone
	endOnce   sync.Once
	goneOnce  sync.Once
	graceTime time.Duration
}

func newWorker(options Options, pod *corev1.Pod, recorder record.EventRecorder) *worker {
	return &worker{
		options:  options,
		pod:      pod,
		status:   newStatus(options.Client, pod),
		recorder: recorder,
		ending:   make(chan struct{}),
		gone:     make(chan struct{}),
	}
}

func (w *worker) dir() string { return podDir(w.options.Dir, w.pod.Namespace, w.pod.Name) }

// shown records the pod as the API server shows it.
func (w *worker) shown(pod *corev1.Pod) {
	w.unready.Store(slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue
	}))
}

// terminate asks the program to exit within grace.
func (w *worker) terminate(grace time.Duration) {
	w.endOnce.Do(func() {
		w.graceTime = grace
		close(w.ending)
	})
}

// kill kills the program immediately.
func (w *worker) kill() { w.goneOnce.Do(func() { close(w.gone) }) }

// run starts and restarts the program until the pod is deleted.
func (w *worker) run(ctx context.Context) {
	for pause := backoff; !w.isOver(ctx); w.rest(ctx, pause.Step()) {
		if err := w.status.locate(ctx); err != nil {
			w.report(ctx, err)
			continue
		}
		w.once(ctx)
	}
	w.conclude(ctx)
}

// once runs the program, from the pull of its image until it exits.
func (w *worker) once(ctx context.Context) {
	log := w.options.Logger.With("pod", w.pod.Namespace+"/"+w.pod.Name)
	if w.status.restarts == 0 {
		w.report(ctx, w.status.waiting(ctx, "ContainerCreating", ""))
	}
	binary, err := w.pull(ctx)
	if err != nil {
		log.Warn("cannot pull the image", "error", err)
		w.notPulled(ctx, err)
		return
	}
	p, err := w.start(ctx, binary)
	if err != nil {
		log.Warn("cannot start the controller", "error", err)
		w.event(corev1.EventTypeWarning, "Failed", err.Error())
		w.report(ctx, w.status.waiting(ctx, "CreateContainerError", err.Error()))
		return
	}
	log.Info("started the controller", "pid", p.PID())
	w.event(corev1.EventTypeNormal, "Started", "Container started")
	w.follow(ctx, p)
	w.instance.Store(nil)
	log.Info("the controller ended", "pid", p.PID(), "code", p.ExitCode())
	if !w.isOver(ctx) {
		w.event(corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container "+w.pod.Spec.Containers[0].Name+" in pod "+w.pod.Name)
		w.report(ctx, w.status.crashed(ctx, p.ExitCode(), w.terminationMessage(p.ExitCode())))
	}
}

// start starts the program, with its own ports and credentials.
func (w *worker) start(ctx context.Context, binary string) (*process.Process, error) {
	dir := w.dir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the pod's folder: %w", err)
	}
	if err := turnLog(dir); err != nil {
		return nil, fmt.Errorf("put the log of the last run aside: %w", err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	account := w.pod.Spec.ServiceAccountName
	if err := w.options.Credentials.ServiceAccountKubeconfig(ctx, kubeconfig, w.pod.Namespace, account, w.pod); err != nil {
		return nil, err
	}
	env, err := w.environment(ctx)
	if err != nil {
		return nil, err
	}
	if w.options.Identity != nil {
		identity, err := w.options.Identity(ctx, dir, w.pod)
		if err != nil {
			return nil, err
		}
		maps.Copy(env, identity)
	}
	ports, err := process.FreePorts(2)
	if err != nil {
		return nil, err
	}
	container := &w.pod.Spec.Containers[0]
	args := expand(append(container.Command, container.Args...), env)
	w.runtime(env, dir, kubeconfig, ports[0], ports[1])
	spec := process.Spec{
		Name: w.pod.Name, Path: binary, Args: args, Env: env.list(), Dir: dir,
		Log: filepath.Join(dir, logFile), Hostname: w.pod.Name,
	}
	p, err := w.options.Programs.Start(spec)
	if err != nil {
		return nil, err
	}
	w.instance.Store(&Instance{
		Pod: w.pod.Name, Namespace: w.pod.Namespace, Node: w.pod.Spec.NodeName,
		PID: p.PID(), Log: spec.Log,
		Metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[0]),
		Health:  fmt.Sprintf("http://127.0.0.1:%d", ports[1]),
	})
	return p, nil
}

// follow reports readiness until the program has exited, and stops it when the pod is deleted.
func (w *worker) follow(ctx context.Context, p *process.Process) {
	w.report(ctx, w.status.running(ctx))
	probe := newProbe(w.pod, w.instance.Load().Health, time.Now())
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	wrote := time.Now()
	for {
		select {
		case <-p.Done():
			return
		case <-w.gone:
			p.Stop(0)
			return
		case <-ctx.Done():
			p.Stop(0)
			return
		case <-w.ending:
			p.Stop(w.graceTime)
			return
		case <-tick.C:
			if w.paused.Load() {
				continue
			}
			ready, changed := probe.ask(ctx)
			if changed || ready && w.unready.Load() && time.Since(wrote) > correctEvery {
				w.report(ctx, w.status.ready(ctx, ready))
				wrote = time.Now()
			}
			if message := probe.complaint(time.Now()); message != "" {
				w.event(corev1.EventTypeWarning, "Unhealthy", message)
			}
		}
	}
}

// conclude reports to the API server that nothing of the pod runs any more.
func (w *worker) conclude(ctx context.Context) {
	if ctx.Err() != nil || closed(w.gone) {
		return
	}
	now, uid := int64(0), w.pod.UID
	err := w.options.Client.CoreV1().Pods(w.pod.Namespace).Delete(ctx, w.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil {
		w.options.Logger.Warn("cannot delete the ended pod", "pod", w.pod.Name, "error", err)
	}
}

func (w *worker) isOver(ctx context.Context) bool {
	return ctx.Err() != nil || closed(w.gone) || closed(w.ending)
}

// rest waits before the next start.
func (w *worker) rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.gone:
	case <-w.ending:
	}
}

func (w *worker) report(ctx context.Context, err error) {
	if err != nil && !w.isOver(ctx) {
		w.options.Logger.Warn("cannot write the pod's status", "pod", w.pod.Name, "error", err)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
