package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/peers"
	"github.com/plumbline-dev/plumbline/tests/stories/apiproxy"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/gitproxy"
	"github.com/plumbline-dev/plumbline/tests/stories/parrot"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
	"github.com/plumbline-dev/plumbline/tests/terraform"
)

// logLines is how many lines of a log a failed story shows.
const logLines = 60

// story is a running story.
type story struct {
	entry
	*member           // the cluster that commands address
	members []*member // the story's own cluster, and those that `on` has added
	ctx     context.Context
	t       *testing.T
	root    string
	began   time.Time
	dir     string // of daemons, next to the script's $WORK
	repo    *repository.Repository
	// statusHost is a proxy for the Git host, once a script uses it.
	statusHost *gitproxy.Proxy
	// pulled is the pull request that it opened last.
	pulled pulled

	parrot     *parrot.Parrot         // nil until the script uses it
	peak       *atomic.Int64          // of the daemon's memory, which `memory` watches
	unwatch    context.CancelFunc     // stops `metrics watch`
	second     *daemon.Daemon         // nil if the story has one
	proxy      *apiproxy.Proxy        // nil if the daemon connects to the API server directly
	hook       *hook                  // nil if the story has none
	prometheus *prometheus            // nil until the script uses it
	receiver   *receiver              // likewise
	terraform  *terraform.Root        // nil until the script uses it
	peers      map[string]*peers.Peer // running ones, by name
	lost       []role                 // as they were before `rbac take`

	settings  map[string]map[string]string // of NodeSyncs, by name
	signers   map[string]signerKey
	ageKeys   map[string]*age.X25519Identity // of `sops key`
	struck    string                         // the last instance that was terminated or interrupted
	elsewhere string                         // the instance of another cluster, if there is one
	// rival is the second control plane, nil if there is none, and rivalKept the instances that rival keep has remembered.
	rival     *sandbox.Sandbox
	rivalKept []string
	followed  []string             // headings of a page that a reader has followed
	available map[string]*fewest   // workloads that `available` watches
	volumes   *followedVolumes     // nil until `volumes follow`
	broken    []context.CancelFunc // end the faults of `kubelet breaks`
	mend      func()               // ends the faults of `registry`; nil if none
	// restorePolicies restores those of Karpenter's role; nil if `aws policies` has not replaced them.
	restorePolicies func()
	undo            []func(context.Context) error // reverts what `registry publishes` and `aws withdraws` have changed for other stories
}

// storyKey is where testscript keeps the story.
type storyKey struct{}

func newStory(t *testing.T, e entry, c *cluster, root string) *story {
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	t.Cleanup(cancel)
	s := &story{entry: e, ctx: ctx, t: t, root: root, began: time.Now(), dir: t.TempDir(), settings: map[string]map[string]string{}, peers: map[string]*peers.Peer{}}
	s.add(c)
	return s
}

// setup creates the repository and its clone before the script runs.
func (s *story) setup(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, "home")
	name := s.name
	if s.c.spoiled {
		return fmt.Errorf("the cluster was spoiled by an earlier story")
	}
	var err error
	if s.repo, err = repository.Create(s.ctx, s.c.Git, name, filepath.Join(env.WorkDir, "repo"), home); err != nil {
		return err
	}
	if err := s.enter(env.Setenv); err != nil {
		return err
	}
	env.Setenv("MANIFESTS", filepath.Join(s.root, "manifests"))
	env.Setenv("FLEET", s.fleet())
	env.Setenv("REPO_URL", s.repo.HTTPURL)
	env.Values[storyKey{}] = s
	return s.expandAll(env.WorkDir)
}

// fleet returns the folder of a reader's clone, the variable FLEET of pages.
func (s *story) fleet() string { return filepath.Join(s.dir, "fleet") }

// kubeconfig returns the administrator's, in plumbline's namespace.
func (s *story) kubeconfig() string { return filepath.Join(s.dir, s.c.Cluster+".kubeconfig") }

func (s *story) writeKubeconfig() error {
	config, err := clientcmd.LoadFromFile(s.c.Kube.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	config.Contexts[config.CurrentContext].Namespace = daemon.Namespace
	if err := clientcmd.WriteToFile(*config, s.kubeconfig()); err != nil {
		return fmt.Errorf("write the story's kubeconfig: %w", err)
	}
	return nil
}

// expandAll expands the script's own files.
func (s *story) expandAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(s.expand(string(data))), 0o600)
	})
}

// expand replaces what only the sandbox knows.
func (s *story) expand(text string) string {
	return strings.NewReplacer("@CLUSTER@", s.c.Cluster, "@REGION@", s.c.Region, "@CHARTS@", s.c.Charts.Repository, "@REPOSITORY@", s.repo.HTTPURL, "@API@", s.repo.API(), "@KARPENTER@", binaries.KarpenterVersion).Replace(text)
}

// close stops what the story has started, whatever its result.
func (s *story) close() {
	s.member = s.members[0]
	for _, m := range s.members {
		m.close(s.t)
	}
	if s.second != nil {
		s.second.Close()
	}
	s.stopPeers()
	err := errors.Join(s.stopRival(), s.restoreRoles(), s.endAdmission(), s.undoAll(), s.c.AWS.SetClusterGone(s.c.Cluster, false))
	if s.elsewhere != "" {
		err = errors.Join(err, s.c.AWS.Terminate(s.elsewhere))
	}
	if s.proxy != nil {
		err = errors.Join(err, s.proxy.Close())
	}
	for _, m := range s.members[1:] {
		m.c.check(s.t)
		err = errors.Join(err, m.c.Down())
	}
	if err != nil {
		s.c.spoiled = true
		s.t.Errorf("end the story: %v", err)
	}
	s.mendAll()
}

// diagnose prints what one would look at first after a failure.
func (s *story) diagnose() {
	for _, s.member = range s.members {
		s.t.Logf("cluster %s", s.c.Cluster)
		s.diagnoseCluster()
	}
}

func (s *story) diagnoseCluster() {
	ctx := context.WithoutCancel(s.ctx)
	s.t.Logf("the end of the daemon's log:\n%s", s.daemon.LogTail(logLines))
	if s.second != nil {
		s.t.Logf("the end of the other daemon's log:\n%s", s.second.LogTail(logLines))
	}
	for _, args := range [][]string{
		{"get", "nodesyncs", "-A", "-o", "yaml"},
		{"get", "nodepools,nodeclaims,ec2nodeclasses,nodes", "-o", "wide"},
		{"get", "nodepools,ec2nodeclasses", "-o", "yaml"},
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "kustomizations,gitrepositories", "-A", "-o", "yaml", "--ignore-not-found"},
		{"get", "applications", "-A", "-o", "yaml", "--ignore-not-found"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp", "-o", "custom-columns=AT:.lastTimestamp,KIND:.involvedObject.kind,NAME:.involvedObject.name,REASON:.reason,MESSAGE:.message"},
	} {
		// The script's folder has been deleted, and its kubeconfig with it.
		cmd := exec.CommandContext(ctx, filepath.Join(s.c.Bin(), "kubectl"), args...)
		cmd.Env = s.c.Environment()
		out, err := cmd.CombinedOutput()
		if err != nil {
			out = fmt.Append(out, err)
		}
		s.t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
	s.t.Logf("left in AWS: %s", s.c.AWS.Left(s.c.Cluster))
	logs, _ := filepath.Glob(filepath.Join(s.c.Dir, "karpenter", "*", "log"))
	for _, path := range append(logs, s.peerLogs()...) {
		data, err := os.ReadFile(path)
		if err != nil {
			s.t.Log(err)
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		s.t.Logf("the end of %s:\n%s", path, strings.Join(lines[max(0, len(lines)-logLines/3):], "\n"))
	}
}
