package main

import (
	"context"
	"fmt"
	"os"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// When what was fetched and rendered is written down while the daemon runs: soon once, and then so
// seldom that it costs nothing. What is lacking is fetched and rendered by the next process.
const (
	keepFirst = time.Minute
	keepEvery = 15 * time.Minute
)

// saver keeps something on disk for the process after this one.
type saver interface{ Save() error }

// keeper has savers save, each by what it keeps.
type keeper map[string]saver

// NeedLeaderElection says that a replica that does not lead, which has nothing, does so, too.
func (keeper) NeedLeaderElection() bool { return false }

// Start writes now and then, and once more when the context ends.
func (k keeper) Start(ctx context.Context) error {
	for wait := keepFirst; ctx.Err() == nil; wait = keepEvery {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		for what, s := range k {
			if err := s.Save(); err != nil {
				ctrl.LoggerFrom(ctx).Info("what was "+what+" is not kept: the next start does it once more", "why", err.Error())
			}
		}
	}
	return nil
}

// program is equal for processes that render the same: those of one file of one version.
func program() string {
	name, err := os.Executable()
	if err != nil {
		return ""
	}
	file, err := os.Stat(name)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %s", version, file.Size(), file.ModTime().UTC().Format(time.RFC3339Nano))
}
