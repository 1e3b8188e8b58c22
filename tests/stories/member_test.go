package stories_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

// member is a cluster of a story, with what the story has in it.
type member struct {
	c       *cluster
	daemon  *daemon.Daemon
	witness *watcher // nil until a command addresses the cluster

	audited   int64    // the byte of the audit log at which the story started
	mark      mark     // where counting starts
	syncs     []string // names of the NodeSyncs, in order
	workloads []string
	kept      []string // instances that ec2 keep has remembered
}

// add adds a cluster, which commands address from now on.
func (s *story) add(c *cluster) {
	m := &member{c: c}
	if _, end, err := c.Kube.Audit(0); err == nil {
		m.audited = end
	}
	m.mark.calls = len(c.AWS.Calls("", "")) // those of earlier stories do not count
	m.daemon = daemon.New(daemon.Options{Kube: c.Kube, AWS: c.AWSVariables(), Root: s.root, Dir: filepath.Join(s.dir, "daemon-"+c.Cluster), Guarded: true})
	s.member, s.members = m, append(s.members, m)
}

// enter sets the variables of the cluster that commands address.
func (s *story) enter(setenv func(key, value string)) error {
	for _, variable := range append(s.c.Environment(), s.repo.Environment()...) {
		key, value, _ := strings.Cut(variable, "=")
		setenv(key, value)
	}
	if err := s.writeKubeconfig(); err != nil {
		return err
	}
	setenv("KUBECONFIG", s.kubeconfig())
	setenv("PATH", s.c.Bin()+":"+filepath.Dir(daemon.Binary(s.root))+":"+repository.Path)
	if s.witness == nil {
		s.witness = s.watch(s.member)
	}
	return nil
}

// onCommand is `on CLUSTER`.
func (s *story) onCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: on CLUSTER")
	}
	at := slices.IndexFunc(s.members, func(m *member) bool { return m.c.Cluster == args[0] })
	if at < 0 {
		c, err := bootBeside(s.ctx, s.root, args[0], s.ground, s.members[0].c)
		if err != nil {
			return fmt.Errorf("start cluster %s: %w", args[0], err)
		}
		s.add(c)
	} else {
		s.member = s.members[at]
	}
	return s.enter(ts.Setenv)
}

// close stops the daemon, and reports what it reported that was untrue.
func (m *member) close(t *testing.T) {
	if m.witness != nil {
		for _, lie := range m.witness.ended() {
			t.Errorf("for %s and longer: %s", lie.Patience, lie.Words)
		}
	}
	m.daemon.Close()
}
