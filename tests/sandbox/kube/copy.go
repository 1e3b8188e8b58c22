package kube

import (
	"fmt"
	"os"
	"path/filepath"
)

// Copy copies the persistent state of a control plane, its etcd and its keys, from one folder to another. Neither may
// be in use.
func Copy(from, to string) error {
	for _, dir := range []string{etcdDir, pkiDir} {
		if err := os.CopyFS(filepath.Join(to, dir), os.DirFS(filepath.Join(from, dir))); err != nil {
			return fmt.Errorf("copy the control plane in %s to %s: %w", from, to, err)
		}
	}
	return nil
}
