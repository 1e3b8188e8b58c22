package nodes

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
)

// eventsOfALife is the maximum number of events of one instance; its channel never blocks the simulator.
const eventsOfALife = 64

// fleet follows every instance from its launch to its termination, each in its own goroutine.
type fleet struct {
	ctx            context.Context // the lifetime of all instances, longer than any single call
	registrar      registrar
	options        Options
	kubeletVersion string
	lives          sync.WaitGroup

	mu         sync.Mutex
	closed     bool
	instances  map[string]chan awssim.Event
	terminated map[string]bool
}

func newFleet(ctx context.Context, o Options, kubeletVersion string) *fleet {
	return &fleet{
		ctx:            ctx,
		registrar:      registrar{nodes: o.Client.CoreV1().Nodes(), logger: o.Logger},
		options:        o,
		kubeletVersion: kubeletVersion,
		instances:      map[string]chan awssim.Event{},
		terminated:     map[string]bool{},
	}
}

// handle handles one event of the simulator and never blocks.
func (f *fleet) handle(e awssim.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	id := e.Instance.ID
	events, known := f.instances[id]
	if !known {
		if e.Kind == awssim.Terminated {
			return
		}
		events = make(chan awssim.Event, eventsOfALife)
		f.instances[id] = events
		f.lives.Go(func() { f.live(events) })
	}
	events <- e
	if e.Kind == awssim.Terminated {
		delete(f.instances, id)
		f.terminated[id] = true
	}
}

// gone reports whether an instance was seen to terminate.
func (f *fleet) gone(instanceID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.terminated[instanceID]
}

// wait returns when nothing is followed any more, after the fleet's context is done.
func (f *fleet) wait() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.lives.Wait()
}

// live follows an instance: it boots once it runs, registers, and when it terminates its kubelet stops before its Node
// is deleted.
func (f *fleet) live(events <-chan awssim.Event) {
	var boot <-chan time.Time
	var registered *corev1.Node
	var instance awssim.Instance
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-boot:
			boot = nil
			registered = f.register(instance)
		case e := <-events:
			switch e.Kind {
			case awssim.Launched:
			case awssim.Running:
				instance, boot = e.Instance, time.After(f.options.BootTime)
			case awssim.Stopping, awssim.ShuttingDown:
				boot = nil
				f.registrar.silence(f.ctx, registered)
			case awssim.Terminated:
				f.registrar.silence(f.ctx, registered)
				f.registrar.remove(f.ctx, registered)
				return
			}
		}
	}
}

// register returns nil for an instance that joins no cluster, or another one.
func (f *fleet) register(instance awssim.Instance) *corev1.Node {
	logger := f.options.Logger.With("instance", instance.ID, "node", instance.PrivateDNSName)
	if instance.Isolated {
		logger.Warn("the instance reaches no API of AWS, and does not join the cluster")
		return nil
	}
	wanted, err := parseUserData(instance.UserData)
	if err != nil {
		// As in reality, only the machine's console shows it.
		logger.Warn("the instance cannot join the cluster", "error", err)
		return nil
	}
	if f.options.Endpoint != "" && wanted.Endpoint != "" && wanted.Endpoint != f.options.Endpoint {
		logger.Debug("the instance joins another cluster", "endpoint", wanted.Endpoint)
		return nil
	}
	return f.registrar.create(f.ctx, f.machine(instance, wanted))
}

func (f *fleet) machine(instance awssim.Instance, wanted join) machine {
	m := machine{
		Name:           instance.PrivateDNSName,
		InstanceID:     instance.ID,
		Type:           instance.Type,
		Arch:           strings.Replace(instance.Arch, "x86_64", "amd64", 1), // EC2's name for it
		Zone:           instance.Zone,
		ZoneID:         instance.ZoneID,
		IP:             instance.PrivateIP,
		Size:           size{VCPU: instance.VCPU, MemoryMiB: instance.MemoryMiB, MaxPods: instance.MaxPods},
		Join:           wanted,
		KubeletVersion: f.kubeletVersion,
	}
	if wanted.MaxPods > 0 {
		m.Size.MaxPods = wanted.MaxPods
	}
	for _, t := range catalog.InstanceTypes() {
		if t.Name == instance.Type && t.GPU.Count > 0 {
			m.Size.GPUs = t.GPU.Count
			m.Size.GPUResource = corev1.ResourceName(strings.ToLower(t.GPU.Manufacturer) + ".com/gpu")
		}
	}
	return m
}
