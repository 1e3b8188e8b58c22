package kube

import (
	"context"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// How long the parts may take on a busy machine, and how often to check.
const (
	etcdTimeout      = 30 * time.Second
	apiServerTimeout = 90 * time.Second
	lookEvery        = 50 * time.Millisecond
)

func (c *ControlPlane) awaitEtcd(ctx context.Context, port int) error {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	return c.await(ctx, "etcd at "+address, etcdTimeout, func(context.Context) bool {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

func (c *ControlPlane) awaitAPIServer(ctx context.Context) error {
	ready := c.Client.Discovery().RESTClient()
	return c.await(ctx, "kube-apiserver at "+c.Endpoint, apiServerTimeout, func(ctx context.Context) bool {
		return ready.Get().AbsPath("/readyz").Do(ctx).Error() == nil
	})
}

// await returns when ok returns true, or when a part has exited.
func (c *ControlPlane) await(ctx context.Context, what string, limit time.Duration, ok func(context.Context) bool) error {
	err := wait.PollUntilContextTimeout(ctx, lookEvery, limit, true, func(ctx context.Context) (bool, error) {
		if err := c.Err(); err != nil {
			return false, err
		}
		return ok(ctx), nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s (its log is in %s): %w", what, c.options.Dir, err)
	}
	return nil
}

// Err returns an error if a part has exited on its own.
func (c *ControlPlane) Err() error {
	for _, p := range c.parts {
		if ended(p) {
			return p.Err()
		}
	}
	return nil
}

func ended(p *process.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}
