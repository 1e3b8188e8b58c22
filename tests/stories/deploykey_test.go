package stories_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// deployKeyCommand creates a key that may read the story's repository, and the Secret with it for the daemon.
func (s *story) deployKeyCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: deploykey SECRET")
	}
	key, err := s.c.Git.NewKey(fmt.Sprint(args[0], "-", time.Now().UnixNano()))
	if err != nil {
		return err
	}
	if err := s.c.Git.AddDeployKey(s.ctx, s.repo.Repository, key, false); err != nil {
		return err
	}
	identity, err := os.ReadFile(key.PrivateFile)
	if err != nil {
		return err
	}
	known, err := os.ReadFile(s.c.Git.KnownHosts)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.c.Git.SSHAddress)
	if err != nil {
		return fmt.Errorf("read the Git host's address: %w", err)
	}
	ts.Setenv("SSH_URL", s.repo.SSHURL)
	ts.Setenv("SSH_HOST", "["+host+"]:"+port)
	ts.Setenv("WEB_URL", s.repo.Page())
	if lines := strings.Split(string(identity), "\n"); len(lines) > 2 {
		ts.Setenv("SSH_KEY", lines[2]) // the first line is the same in all keys
	}
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"metadata": map[string]any{
			"name": args[0], "namespace": daemon.Namespace,
			"annotations": map[string]any{"plumbline.dev/hosts": host},
		},
		"stringData": map[string]any{"identity": string(identity), "known_hosts": string(known)},
	})
	if err != nil {
		return fmt.Errorf("write the Secret's manifest: %w", err)
	}
	return s.apply(manifest)
}
