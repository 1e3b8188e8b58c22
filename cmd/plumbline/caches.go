package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// cacheOptions returns what the daemon watches and caches.
func cacheOptions(refusals *cluster.Refusals, o *runOptions) cache.Options {
	options := cluster.CacheOptions(refusals)
	maps.Copy(options.ByObject, cluster.Labelled(o.namespace))
	cluster.Narrow(options.ByObject, o.karpenterNamespaces)
	return options
}

// lockCache creates a cache folder and locks it for this process, until the process exits or calls unlock: if another
// daemon fetched into the stores, or evicted from them, data would disappear during a reconcile. It locks nothing if
// the file system does not support locks.
func lockCache(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make --cache-dir: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock --cache-dir: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		_ = file.Close()
		return nil, fmt.Errorf("another plumbline daemon on this machine uses the folder %s: set a different --cache-dir", dir)
	}
	return func() { _ = file.Close() }, nil
}
