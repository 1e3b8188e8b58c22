package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// Two daemons, of which one leads.

// other is the second daemon.
func (s *story) other() *daemon.Daemon {
	if s.second == nil {
		s.second = daemon.New(daemon.Options{Kube: s.c.Kube, AWS: s.c.AWSVariables(), Root: s.root, Dir: filepath.Join(s.dir, "other")})
	}
	return s.second
}

// stands is what a daemon logs of itself before an election.
var stands = regexp.MustCompile(`"stands for election".*"identity":"([^"]+)"`)

func (s *story) leadsCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, _, err := options(args)
	if err != nil {
		return err
	}
	d := s.daemon
	switch {
	case len(args) == 1 && args[0] == "other":
		d = s.other()
	case len(args) > 0:
		return errors.New("usage: leads [-t D] [other]")
	}
	return s.poll(timeout, func(ctx context.Context) error {
		log, err := os.ReadFile(d.LogFile())
		if err != nil {
			return err
		}
		said := stands.FindAllSubmatch(log, -1)
		if len(said) == 0 {
			return errors.New("it has not stood for election")
		}
		lease, err := s.c.Kube.Client.CoordinationV1().Leases(daemon.Namespace).Get(ctx, "plumbline", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holder, is := lease.Spec.HolderIdentity, string(said[len(said)-1][1]); holder == nil || *holder != is {
			return fmt.Errorf("the lease is not held by %s: %v", is, lease.Spec)
		}
		return nil
	})
}
