package ebs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
)

// DriverName is the driver's name in all Kubernetes objects.
const DriverName = "ebs.csi.aws.com"

// retryAfter is the delay before a pass is repeated in which something failed.
const retryAfter = 300 * time.Millisecond

// Cloud is what the driver needs of EC2.
type Cloud interface {
	CreateVolume(zone string, sizeGiB int, tags map[string]string) (id string)
	DeleteVolume(volumeID string) error
	AttachVolume(instanceID, volumeID, device string) error
	DetachVolume(instanceID, volumeID string) error
}

// Options specify whose volumes to manage.
type Options struct {
	Client kubernetes.Interface
	Cloud  Cloud
	// Cluster is the name in the volumes' tag kubernetes.io/cluster/<name>.
	Cluster string
	// UnmountTime is how long a node takes to unmount a volume once its pod is gone.
	UnmountTime time.Duration
	// Gone reports whether an instance is terminated; its volumes can be released in any case.
	Gone   func(instanceID string) bool
	Logger *slog.Logger
}

// Driver manages the volumes of one cluster.
type Driver struct {
	client      kubernetes.Interface
	cloud       Cloud
	cluster     string
	unmountTime time.Duration
	gone        func(instanceID string) bool
	logger      *slog.Logger

	caches  *caches
	running sync.WaitGroup

	// What was done in the cloud and may not be in the caches yet. Only passes use it, one at a time.
	created  map[string]string     // claim's UID to volume
	attached map[string]attachment // VolumeAttachment's UID to what was attached
	unused   map[place]time.Time   // since when
}

// Start returns when the driver knows the cluster. It works until ctx is done.
func Start(ctx context.Context, o Options) (*Driver, error) {
	d := &Driver{
		client:      o.Client,
		cloud:       o.Cloud,
		cluster:     o.Cluster,
		unmountTime: o.UnmountTime,
		gone:        o.Gone,
		logger:      o.Logger,
		created:     map[string]string{},
		attached:    map[string]attachment{},
	}
	var err error
	if d.caches, err = newCaches(ctx, o.Client); err != nil {
		return nil, fmt.Errorf("start the EBS driver: %w", err)
	}
	d.running.Go(func() { d.run(ctx) })
	return d, nil
}

// Wait returns when the driver has stopped, after its context is done.
func (d *Driver) Wait() {
	d.running.Wait()
	d.caches.wait()
}

// run makes a pass over everything whenever something has changed. A sandbox is small enough for that.
func (d *Driver) run(ctx context.Context) {
	said := ""
	for {
		var again <-chan time.Time
		if err := d.pass(ctx); err == nil {
			said = ""
		} else {
			again = time.After(retryAfter)
			if err.Error() != said && ctx.Err() == nil {
				said = err.Error()
				d.logger.Debug("EBS driver: tried again soon", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-d.caches.changed:
		case <-again:
		}
	}
}

func (d *Driver) pass(ctx context.Context) error {
	v := d.caches.view()
	d.forget(v)
	errs := []error{d.register(ctx, v), d.mount(ctx, v)}
	if v.controllerRuns() {
		errs = append(errs, d.provision(ctx, v), d.attach(ctx, v))
	}
	return errors.Join(errs...)
}

// forget removes what is recorded about deleted objects.
func (d *Driver) forget(v *view) {
	claims, attachments := map[string]bool{}, map[string]bool{}
	for _, claim := range v.claims {
		claims[string(claim.UID)] = true
	}
	for _, a := range v.attachments {
		attachments[string(a.UID)] = true
	}
	for uid := range d.created {
		if !claims[uid] {
			delete(d.created, uid)
		}
	}
	for uid := range d.attached {
		if !attachments[uid] {
			delete(d.attached, uid)
		}
	}
}
