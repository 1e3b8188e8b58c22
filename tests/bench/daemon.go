package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/nodesync"
)

// nodeSyncName is the one NodeSync's.
const nodeSyncName = "bench"

var nodeSyncs = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "nodesyncs"}

// working is in the daemon's log once it leads and its caches are filled.
const working = "Starting workers"

// startDaemon starts it with the flags of its Deployment, and waits until it has
// nothing to do but to wait for a NodeSync.
func (b *bench) startDaemon(ctx context.Context) error {
	ports, err := process.FreePorts(1)
	if err != nil {
		return err
	}
	b.metrics = fmt.Sprintf("127.0.0.1:%d", ports[0])
	if err := b.daemon.Start(ctx, append(b.flags(), "--metrics-addr="+b.metrics)...); err != nil {
		return err
	}
	if err := b.await(ctx, "the daemon to lead", func(context.Context) (bool, error) {
		if !b.daemon.Running() {
			return false, b.daemon.Err()
		}
		log, err := os.ReadFile(b.daemon.LogFile())
		return bytes.Contains(log, []byte(working)), err
	}); err != nil {
		return err
	}
	b.process = watched(b.daemon.PID())
	return nil
}

// flags are what the daemon runs with beside its addresses and folders.
func (b *bench) flags() []string {
	return append([]string{"--leader-elect", "--log-level=info"}, b.options.Flags...)
}

// follow makes the NodeSync, and returns when the API server had it.
func (b *bench) follow(ctx context.Context) (time.Time, error) {
	manifest, err := nodesync.Manifest(nodesync.Options{
		Name: nodeSyncName, Namespace: daemon.Namespace, Repository: b.host.repo,
		User:     githost.User{Name: "bench", Token: "bench"},
		Settings: map[string]string{"interval": "1h", "retryInterval": "10s", "path": "./" + folder},
	})
	if err != nil {
		return time.Time{}, err
	}
	if _, err := b.kube.Kubectl(ctx, manifest, "apply", "-f", "-"); err != nil {
		return time.Time{}, fmt.Errorf("make the NodeSync: %w", err)
	}
	sync, err := b.objects.Resource(nodeSyncs).Namespace(daemon.Namespace).Get(ctx, nodeSyncName, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the NodeSync: %w", err)
	}
	writes, err := b.kube.Writes()
	if err != nil {
		return time.Time{}, err
	}
	for _, w := range writes {
		if w.Resource == nodeSyncs.Resource && w.Name == nodeSyncName {
			return w.Time, nil
		}
	}
	return sync.GetCreationTimestamp().Time, nil
}

// request asks for a reconcile, as a webhook would. The clock runs since the
// push.
func (b *bench) request(ctx context.Context) (time.Time, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, time.Now().Format(time.RFC3339Nano))
	syncs := b.objects.Resource(nodeSyncs).Namespace(daemon.Namespace)
	if _, err := syncs.Patch(ctx, nodeSyncName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return time.Time{}, fmt.Errorf("request a reconcile: %w", err)
	}
	return time.Time{}, nil
}
