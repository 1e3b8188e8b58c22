package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/gitproxy"
	"github.com/plumbline-dev/plumbline/tests/stories/nodesync"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

// Options specify the duration and the seed.
type Options struct {
	// Root is the checkout that contains bin/plumbline.
	Root    string
	Minutes float64
	Seed    uint64
	// Out gets a line for each action.
	Out io.Writer
}

const (
	syncName = "soak"
	// actionsARound is the number of actions before everything has to become quiet.
	actionsARound = 14
	// longestPause is the maximum pause between two actions.
	longestPause = 5 * time.Second
)

// The resources of definitions.
const (
	nodePools   = "nodepools"
	nodeClaims  = "nodeclaims"
	nodeClasses = "ec2nodeclasses"
	// poolTag is the tag with an instance's pool.
	poolTag = "karpenter.sh/nodepool"
)

var (
	syncResource  = schema.GroupVersionResource{Group: "plumbline.dev", Version: "v1alpha1", Resource: "nodesyncs"}
	poolResource  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: nodePools}
	claimResource = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: nodeClaims}
	classResource = schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: nodeClasses}
)

// errViolation means that an invariant was violated.
var errViolation = errors.New("violation")

// soak is one run.
type soak struct {
	options Options
	dir     string
	journal *journal
	draw    *rand.Rand

	sandbox  *sandbox.Sandbox
	objects  dynamic.Interface
	replicas []*replica
	// git and statuses are the daemons' proxies for the Git host.
	git, statuses *gitproxy.Proxy
	repo          *repository.Repository
	place         place

	fleet fleet
	// setBack is true if HEAD is older than what was applied: what it does not contain is held until a newer commit.
	setBack bool
	history *history
	lives   lives
	// loads are the workloads and where their pods have to run; if empty, anywhere.
	loads  map[string]load
	faults faults
	checks *checker
	leaks  leaks
	rests  rests
	// driftingSince is since when a node is outdated, as seen on the way to a quiet state.
	driftingSince time.Time
}

// Run runs the soak test. Its error contains what was found, with all information to examine it.
func Run(ctx context.Context, options Options) error {
	dir, err := os.MkdirTemp("", "plumbline-soak-")
	if err != nil {
		return err
	}
	s := &soak{
		options: options, dir: dir, journal: newJournal(options.Out), draw: rand.New(rand.NewPCG(options.Seed, 0)),
		history: &history{}, loads: map[string]load{}, leaks: leaks{},
	}
	s.journal.say("seed %d, %g minutes; logs in %s", options.Seed, options.Minutes, dir)
	err = s.run(ctx)
	s.summarize()
	if err == nil {
		return os.RemoveAll(dir)
	}
	return fmt.Errorf("%w\nthe last actions:\n%s\nagain: make soak MINUTES=%g SEED=%d\nlogs: %s", err, s.journal.tail(), options.Minutes, options.Seed, dir)
}

func (s *soak) run(ctx context.Context) (err error) {
	if err := s.begin(ctx); err != nil {
		return errors.Join(err, s.end())
	}
	defer func() { err = errors.Join(err, s.end()) }()
	s.checks = newChecker(s)
	watched, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go s.checks.run(watched, stop)
	err = s.soak(watched)
	if found := context.Cause(watched); found != nil && ctx.Err() == nil {
		return found // a violation has stopped the run
	}
	if err != nil {
		return err
	}
	stop(nil)
	return s.finish(ctx)
}

// begin installs Karpenter with the first push.
func (s *soak) begin(ctx context.Context) error {
	var err error
	s.sandbox, err = sandbox.Up(ctx, sandbox.Options{Dir: filepath.Join(s.dir, "sandbox"), WithGit: true, AdminGroups: []string{daemon.BreakGlassGroup}, Seed: s.options.Seed, Progress: s.options.Out})
	if err != nil {
		return err
	}
	s.sandbox.AWS.Subscribe(s.lives.hear)
	if s.objects, err = dynamic.NewForConfig(s.sandbox.Kube.Config); err != nil {
		return err
	}
	if err := daemon.Install(ctx, s.sandbox.Kube, s.options.Root); err != nil {
		return err
	}
	s.place = place{cluster: s.sandbox.Cluster, region: s.sandbox.Region, charts: s.sandbox.Charts.Repository}
	if s.repo, err = repository.Create(ctx, s.sandbox.Git, syncName, filepath.Join(s.dir, "repo"), filepath.Join(s.dir, "home")); err != nil {
		return err
	}
	s.fleet = fleet{
		pools:   map[string]pool{"p0": {class: "c0", cpu: 100, weight: 10}, "p1": {class: "c0", cpu: 100, weight: 20}},
		classes: map[string]class{"c0": {team: "red"}},
	}
	if err := s.push(ctx, "the first nodes"); err != nil {
		return err
	}
	if err := s.applySync(ctx); err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		r, err := s.newReplica(name)
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// applySync makes the daemons fetch, and report, through proxies.
func (s *soak) applySync(ctx context.Context) error {
	at, err := url.Parse(s.repo.HTTPURL)
	if err != nil {
		return err
	}
	for _, way := range []**gitproxy.Proxy{&s.git, &s.statuses} {
		if *way, err = gitproxy.New("http://" + at.Host); err != nil {
			return err
		}
	}
	manifest, err := nodesync.Manifest(nodesync.Options{
		Name: syncName, Namespace: daemon.Namespace, Repository: s.repo, User: s.sandbox.Git.Admin, Charts: s.sandbox.Charts.Repository,
		Settings: map[string]string{
			"guard.maxRemovedPools": "20", "guard.maxDisruptedNodes": "100%", "removal.maxUnavailable": "100%", "timeout": "10s", "onDelete": "Drain", "rollout.waves": "{disabled: true}",
			"source.git.url": s.git.URL() + at.Path,
			"report":         fmt.Sprintf("[{provider: gitea, url: %q, secretRef: {name: %s-git}}]", s.statuses.URL()+strings.TrimSuffix(at.Path, ".git"), syncName),
		},
	})
	if err != nil {
		return err
	}
	_, err = s.sandbox.Kube.Kubectl(ctx, manifest, "apply", "--server-side", "-f", "-")
	return err
}

// soak acts until the time is over, with quiet periods in between.
func (s *soak) soak(ctx context.Context) error {
	if err := s.rest(ctx); err != nil {
		return err
	}
	end := time.Now().Add(time.Duration(s.options.Minutes * float64(time.Minute)))
	for time.Now().Before(end) {
		for range actionsARound {
			if err := errors.Join(s.revive(ctx), s.act(ctx)); err != nil {
				return err
			}
			if err := s.pause(ctx, time.Duration(s.draw.Int64N(int64(longestPause)))); err != nil {
				return err
			}
		}
		if err := s.rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, and ends the faults that are due.
func (s *soak) pause(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		var due <-chan time.Time
		if next, any := s.faults.next(); any {
			timer := time.NewTimer(time.Until(next))
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over.C:
			return nil
		case <-due:
			if err := s.endFaults(ctx, time.Now()); err != nil {
				return err
			}
		}
	}
}

// finish deletes everything with the NodeSync.
func (s *soak) finish(ctx context.Context) error {
	s.journal.say("the NodeSync is deleted with onDelete: Drain")
	for name := range s.loads {
		if err := s.scale(ctx, name, load{}); err != nil {
			return err
		}
	}
	if _, err := s.sandbox.Kube.Kubectl(ctx, nil, "delete", "nodesync", syncName, "-n", daemon.Namespace, "--timeout=180s"); err != nil {
		return err
	}
	for _, r := range s.replicas {
		if err := r.Stop(); err != nil {
			return err
		}
	}
	return s.until(ctx, func(context.Context) error {
		if left := s.sandbox.AWS.Left(s.sandbox.Cluster); !left.Empty() {
			return fmt.Errorf("left in AWS: %s", left)
		}
		return nil
	})
}

func (s *soak) end() error {
	var errs []error
	for _, r := range s.replicas {
		errs = append(errs, r.close())
	}
	for _, way := range []*gitproxy.Proxy{s.git, s.statuses} {
		if way != nil {
			way.Close()
		}
	}
	if s.sandbox != nil {
		errs = append(errs, s.sandbox.Down())
	}
	return errors.Join(errs...)
}
