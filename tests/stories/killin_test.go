package stories_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// killInCommand is `killin RELEASE`: it kills the daemon as soon as Helm has
// written down that it has begun with a release.
func (s *story) killInCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: killin RELEASE")
	}
	ctx, cancel := context.WithTimeout(s.ctx, defaultWait)
	defer cancel()
	begun, err := s.c.Kube.Client.CoreV1().Secrets(sandbox.ChartNamespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: "owner=helm,status in (pending-install,pending-upgrade),name=" + args[0],
	})
	if err != nil {
		return fmt.Errorf("watch Helm's releases: %w", err)
	}
	defer begun.Stop()
	for event := range begun.ResultChan() {
		if event.Type == watch.Added {
			return s.daemon.Kill()
		}
	}
	return fmt.Errorf("helm has not begun with release %s: %w", args[0], errNotYet)
}
