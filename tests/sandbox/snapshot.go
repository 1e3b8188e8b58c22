package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

// snapshotFormat is part of a snapshot's key: increase it when this file changes the content of snapshots.
const snapshotFormat = "1"

// copySnapshot copies the prepared cluster into dir, after preparing it if it is not in the cache.
func (s *Sandbox) copySnapshot(ctx context.Context, dir string) error {
	prepared := filepath.Join(s.options.Cache, "snapshot-"+s.snapshotKey())
	unlock, err := binaries.Lock(ctx, s.options.Cache, "snapshot")
	if err != nil {
		return err
	}
	defer unlock()
	_, err = os.Stat(prepared)
	if errors.Is(err, fs.ErrNotExist) {
		err = s.prepare(ctx, prepared)
	}
	if err != nil {
		return fmt.Errorf("prepare a cluster with Karpenter's charts: %w", err)
	}
	if err := binaries.Use(prepared); err != nil {
		return err
	}
	return kube.Copy(prepared, dir)
}

// snapshotKey changes with everything that a snapshot depends on. The charts come from the module that Karpenter is
// built from.
func (s *Sandbox) snapshotKey() string {
	sum := sha256.New()
	fmt.Fprintln(sum, snapshotFormat, s.Cluster, s.Region, s.options.Kubernetes)
	for _, program := range []string{s.kubernetes(), s.paths[binaries.Karpenter], s.paths[binaries.Helm]} {
		fmt.Fprintln(sum, filepath.Base(program))
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// prepare installs the charts into a cluster that creates no pods, stops it and moves it into the cache.
func (s *Sandbox) prepare(ctx context.Context, to string) error {
	began := time.Now()
	s.say("preparing a cluster with Karpenter's charts (once)\n")
	scratch, err := os.MkdirTemp(s.options.Cache, "preparing-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	if err := s.installInto(ctx, scratch); err != nil {
		return err
	}
	partial := to + ".partial"
	if err := errors.Join(os.RemoveAll(partial), kube.Copy(scratch, partial)); err != nil {
		return err
	}
	if err := os.Rename(partial, to); err != nil {
		return err
	}
	s.say("prepared it in %s\n", time.Since(began).Round(time.Second))
	return binaries.Prune(s.options.Cache, "snapshot-*", to)
}

func (s *Sandbox) installInto(ctx context.Context, dir string) error {
	c, err := kube.Start(ctx, kube.Options{
		Binary: s.kubernetes(), Dir: dir, Programs: s.programs, Logger: s.options.Logger,
		EmulatedVersion:    s.options.Kubernetes,
		WithoutControllers: []string{"deployment"}, WithoutScheduler: true,
	})
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := awaitDefaults(ctx, c.Client); err != nil {
		return err
	}
	registry, err := s.serveCharts(ctx)
	if err != nil {
		return err
	}
	installed := person{sandbox: s, kubeconfig: c.Kubeconfig, repository: registry.Repository}.installCharts(ctx, binaries.KarpenterVersion)
	if err := errors.Join(installed, registry.Close()); err != nil {
		return err
	}
	return forget(ctx, c.Client)
}

// awaitDefaults waits until the controllers have created what every namespace contains, so that a cluster started from
// the snapshot need not.
func awaitDefaults(ctx context.Context, client kubernetes.Interface) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		for _, namespace := range []string{"default", "kube-system"} {
			_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			if err != nil {
				return false, nil //nolint:nilerr // it is not there yet
			}
			_, err = client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			if err != nil {
				return false, nil //nolint:nilerr // it is not there yet
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the default service accounts: %w", err)
	}
	return nil
}

// forget removes what refers to the time of preparation.
func forget(ctx context.Context, client kubernetes.Interface) error {
	for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		err := errors.Join(
			client.CoordinationV1().Leases(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
			client.CoreV1().Events(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		)
		if err != nil {
			return fmt.Errorf("remove leases and events in %s: %w", namespace, err)
		}
	}
	return nil
}

func (s *Sandbox) say(format string, args ...any) {
	if s.options.Progress != nil {
		fmt.Fprintf(s.options.Progress, format, args...)
	}
}
