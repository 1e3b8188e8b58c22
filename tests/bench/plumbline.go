package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
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

var nodeSyncs = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "nodesyncs"}

// working is in the daemon's log once it leads and its caches are filled.
const working = "Starting workers"

// plumbline is the daemon as a follower.
type plumbline struct {
	*ground
	daemon *daemon.Daemon
	// profiles is the address of the daemon's profiles, hooks that of its webhook receiver.
	profiles, hooks string
	// direct sends requests without a proxy.
	direct *http.Client
	// syncs are the names of the NodeSyncs.
	syncs []string
}

func (p *plumbline) users() []string {
	return []string{"system:serviceaccount:" + daemon.Namespace + ":" + daemon.ServiceAccount}
}

func (p *plumbline) cpu() (time.Duration, error) {
	if !p.daemon.Running() {
		return 0, nil // it is about to be started
	}
	return watched(p.daemon.PID()).cpu()
}

// flags returns the daemon's flags besides its addresses and folders: those of its Deployment.
func (p *plumbline) flags() []string {
	return append([]string{"--leader-elect", "--log-level=info", "--cloud-interval=10s"}, p.options.Flags...)
}

// start starts the daemon and waits until it leads.
func (p *plumbline) start(ctx context.Context) error {
	said := len(p.log())
	if err := p.launch(ctx); err != nil {
		return err
	}
	return p.await(ctx, "the daemon to lead", func(context.Context) (bool, error) {
		if !p.daemon.Running() {
			return false, p.daemon.Err()
		}
		return bytes.Contains(p.log()[said:], []byte(working)), nil
	})
}

// launch starts the daemon without waiting.
func (p *plumbline) launch(ctx context.Context) error {
	ports, err := process.FreePorts(2)
	if err != nil {
		return err
	}
	p.profiles, p.hooks = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	return p.daemon.Start(ctx, append(p.flags(), "--profiling-addr="+p.profiles, "--webhook-addr="+p.hooks)...)
}

// log returns the daemon's log of all starts.
func (p *plumbline) log() []byte {
	log, err := os.ReadFile(p.daemon.LogFile())
	if err != nil {
		return nil // it has not been started yet
	}
	return log
}

// follow creates a NodeSync for a folder of the repository, and returns the time of the request.
func (p *plumbline) follow(ctx context.Context, name, folder string, settings map[string]string) (time.Time, error) {
	all := map[string]string{
		"interval": "1h", "retryInterval": "10s", "removal.grace": "0s", "path": "./" + folder,
		"rollout.waves": "{disabled: true}",
	}
	for setting, value := range settings {
		all[setting] = value
	}
	manifest, err := nodesync.Manifest(nodesync.Options{
		Name: name, Namespace: daemon.Namespace, Repository: p.host.repo,
		User: githost.User{Name: "bench", Token: "bench"}, Settings: all,
	})
	if err != nil {
		return time.Time{}, err
	}
	p.syncs = append(p.syncs, name)
	return p.apply(ctx, manifest)
}

// leave deletes all NodeSyncs and what they have applied.
func (p *plumbline) leave(ctx context.Context) error {
	syncs := p.objects.Resource(nodeSyncs).Namespace(daemon.Namespace)
	if err := syncs.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete the NodeSyncs: %w", err)
	}
	if err := p.await(ctx, "the NodeSyncs to go", func(ctx context.Context) (bool, error) {
		left, err := syncs.List(ctx, metav1.ListOptions{})
		return err == nil && len(left.Items) == 0, err
	}); err != nil {
		return err
	}
	p.syncs = nil
	return p.clear(ctx)
}

// request requests a reconcile of each NodeSync, as a person does.
func (p *plumbline) request(ctx context.Context, token string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, token)
	for _, name := range p.syncs {
		_, err := p.objects.Resource(nodeSyncs).Namespace(daemon.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("request a reconcile of %s: %w", name, err)
		}
	}
	return nil
}
