package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// paceScene runs only if it is requested: with 1,000 nodes it takes half an hour or more.
	paceScene = "pace"
	// minPaced is the minimum number of nodes whose pace can be measured, and wholeUpTo the maximum number that is replaced
	// completely.
	minPaced, wholeUpTo = 50, 200
	// factor is by how much an estimate may differ.
	factor = 2
	// pacePatience limits the rollout, and growPatience the launch of all nodes.
	pacePatience, growPatience = 90 * time.Minute, 30 * time.Minute
)

// The shares of a rollout, one in each: estimates count from the first to the second one, and the pace from the second
// to the third one is compared with them.
const firstShare, secondShare, thirdShare = 0.1, 0.2, 0.4

// Paced is how the estimates of a rollout compare with its pace. The nodes are replaced by Karpenter's real controller.
type Paced struct {
	Nodes int
	// Estimates is the number of estimates while a tenth to a fifth of the nodes was replaced, and Missing how often
	// there was none, or only a minimum. Least and Most are the shortest and the longest duration of the whole rollout
	// by them, and LimitedBy is what limits it by the newest one.
	Estimates, Missing int
	Least, Most        time.Duration
	LimitedBy          string
	// Took is the duration of the first fifth, and Whole that of the whole rollout: by the pace of the second fifth, or
	// if Complete, until all nodes were replaced.
	Took, Whole time.Duration
	Complete    bool
}

// Met reports whether there was an estimate at all times, and each is within a factor of two of the whole duration.
func (p *Paced) Met() bool {
	return p.Estimates > 0 && p.Missing == 0 && p.Whole > 0 && p.Least >= p.Whole/factor && p.Most <= p.Whole*factor
}

func (p *Paced) line() string {
	how := "by the pace of the second fifth"
	if p.Complete {
		how = "in fact"
	}
	limited := ""
	if p.LimitedBy != "" {
		limited = ", limited by " + p.LimitedBy
	}
	return fmt.Sprintf("rollout of %d NodeClaims by Karpenter %s: the first fifth took %s, the whole takes %s %s; "+
		"%d estimates of that from a tenth of it to a fifth: %s to %s%s; %d times there was none; bar a factor of %d %s",
		p.Nodes, binaries.KarpenterVersion, p.Took.Round(time.Second), p.Whole.Round(time.Second), how,
		p.Estimates, p.Least.Round(time.Second), p.Most.Round(time.Second), limited, p.Missing, factor, verdict(p.Met()))
}

// pace replaces nodes by a commit, and compares the estimates in the status of the NodeSync with what happens.
func (g *ground) pace(ctx context.Context) (*Paced, error) {
	defer g.close()
	if err := g.openSandbox(ctx); err != nil {
		return nil, err
	}
	r := &pacedRollout{ground: g, paced: Paced{Nodes: g.options.Nodes, Complete: g.options.Nodes <= wholeUpTo}}
	err := g.inTurn(ctx,
		step{"a commit with a NodePool", r.begin},
		step{"nodes are launched", r.grow},
		step{"a commit outdates all nodes", r.outdate},
		step{"nodes are replaced", r.watch},
		step{"the daemon stops", func(context.Context) error { return g.plumbline.daemon.Stop() }},
	)
	if err != nil {
		return nil, fmt.Errorf("%w\nthe end of the daemon's log:\n%s", err, g.plumbline.daemon.LogTail(10))
	}
	return &r.paced, nil
}

// openSandbox starts a sandbox in which Karpenter's controller runs, a Git host and the daemon, which does not run yet.
func (g *ground) openSandbox(ctx context.Context) error {
	s, err := sandbox.Up(ctx, sandbox.Options{
		Dir: g.path("sandbox"), Source: g.source(), FromSnapshot: true, AdminGroups: []string{daemon.BreakGlassGroup},
		Progress: io.Discard,
	})
	if err != nil {
		return err
	}
	g.onClose(func() { _ = s.Down() })
	g.kube, g.aws = s.Kube, s.AWSEndpoint
	if g.objects, err = dynamic.NewForConfig(s.Kube.Config); err != nil {
		return err
	}
	if err := g.startGit(ctx); err != nil {
		return err
	}
	return g.installDaemon(ctx, s.AWSVariables())
}

// pacedRollout is the rollout of that scene.
type pacedRollout struct {
	*ground
	paced Paced
	// outdated are the names of the NodeClaims that the commit outdates.
	outdated map[string]bool
	claims   cache.SharedIndexInformer
}

// write writes the files of the repository; team is a tag of the instances.
func (r *pacedRollout) write(team string) error {
	f := newFleet(folder, "", 0)
	files := f.settings()
	files[folder+"/nodes/class.yaml"] = fmt.Sprintf(pacedClassYAML, team)
	files[folder+"/nodes/pool.yaml"] = pacedPoolYAML
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := r.host.repo.Write(name, []byte(files[name])); err != nil {
			return err
		}
	}
	return nil
}

func (r *pacedRollout) begin(ctx context.Context) error {
	if err := r.write("blue"); err != nil {
		return err
	}
	p, err := r.host.push(ctx, nobody)
	if err != nil {
		return err
	}
	if err := r.plumbline.start(ctx); err != nil {
		return err
	}
	if _, err := r.plumbline.follow(ctx, "bench", folder, map[string]string{"guard.maxDisruptedNodes": "100%"}); err != nil {
		return err
	}
	return r.plumbline.settled(ctx, p.commit)
}

// grow makes Karpenter launch a node for each pod of a Deployment.
func (r *pacedRollout) grow(ctx context.Context) error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(r.objects, 0)
	r.claims = factory.ForResource(nodeClaims).Informer()
	if err := r.claims.SetTransform(onlyWhatCounts); err != nil {
		return fmt.Errorf("watch the NodeClaims: %w", err)
	}
	watched, stop := context.WithCancel(ctx)
	r.onClose(stop)
	factory.Start(watched.Done())
	if _, err := r.apply(ctx, fmt.Appendf(nil, pacedWorkloadYAML, r.paced.Nodes)); err != nil {
		return err
	}
	last := 0
	err := wait.PollUntilContextTimeout(ctx, time.Second, growPatience, true, func(ctx context.Context) (bool, error) {
		names := r.initialized()
		last = len(names)
		if last < r.paced.Nodes {
			return false, nil
		}
		r.outdated = names
		// A pod's readiness does not count: kwok does not report again what the node lifecycle controller has changed
		// while a busy machine delayed the heartbeats of its nodes.
		waiting, err := r.kube.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		return err == nil && len(waiting.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("wait for %d nodes with a pod each: %w; %d nodes are initialized", r.paced.Nodes, err, last)
	}
	if len(r.outdated) != r.paced.Nodes {
		return fmt.Errorf("%d nodes were launched for %d pods", len(r.outdated), r.paced.Nodes)
	}
	return nil
}

// onlyWhatCounts removes what the scene does not use from a NodeClaim.
func onlyWhatCounts(object any) (any, error) {
	claim, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil // a tombstone
	}
	claim.SetManagedFields(nil)
	unstructured.RemoveNestedField(claim.Object, "spec")
	return claim, nil
}

// initialized returns the names of the NodeClaims whose nodes are initialized.
func (r *pacedRollout) initialized() map[string]bool {
	names := map[string]bool{}
	for _, object := range r.claims.GetStore().List() {
		claim, ok := object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		conditions, _, _ := unstructured.NestedSlice(claim.Object, "status", "conditions")
		for _, c := range conditions {
			if fields, ok := c.(map[string]any); ok && fields["type"] == "Initialized" && fields["status"] == "True" {
				names[claim.GetName()] = true
			}
		}
	}
	return names
}

func (r *pacedRollout) outdate(ctx context.Context) error {
	if err := r.write("green"); err != nil {
		return err
	}
	_, err := r.host.push(ctx, r.plumbline.notify)
	return err
}

// watch reads the estimates, and when which share of the nodes was replaced.
func (r *pacedRollout) watch(ctx context.Context) error {
	var began, second, third time.Time
	last := ""
	err := wait.PollUntilContextTimeout(ctx, time.Second, pacePatience, true, func(ctx context.Context) (bool, error) {
		seen, err := r.look(ctx)
		if err != nil {
			return false, err
		}
		r.paced.add(seen)
		if began.IsZero() {
			began = seen.since
		}
		now, replaced := time.Now(), r.replaced()
		share := float64(replaced) / float64(r.paced.Nodes)
		if second.IsZero() && share >= secondShare {
			second = now
		}
		if third.IsZero() && share >= thirdShare {
			third = now
		}
		last = fmt.Sprintf("%.0f%% are replaced; %s", 100*share, seen)
		r.line.Say(last)
		if r.paced.Complete {
			return replaced == r.paced.Nodes, nil
		}
		return !third.IsZero(), nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("wait for the rollout: %w: %s", err, last)
	case began.IsZero():
		return errors.New("the NodeSync reported no rollout")
	}
	r.paced.Took = second.Sub(began)
	r.paced.Whole = wholeBy(r.paced.Took, third.Sub(second))
	if r.paced.Complete {
		r.paced.Whole = time.Since(began)
	}
	return nil
}

// wholeBy returns the duration of a whole rollout by that of its first and its second fifth: the others take as long as
// the second one.
func wholeBy(first, second time.Duration) time.Duration { return first + 4*second }

// replaced returns how many of the outdated NodeClaims no longer exist.
func (r *pacedRollout) replaced() int {
	gone := len(r.outdated)
	for _, name := range r.claims.GetStore().ListKeys() {
		if r.outdated[name] {
			gone--
		}
	}
	return gone
}

// estimated is what the status of the NodeSync reports of a rollout; the zero value if there is none.
type estimated struct {
	share     float64
	since     time.Time
	ends      time.Time
	atLeast   bool
	limitedBy string
}

// String describes it.
func (e estimated) String() string {
	if e.ends.IsZero() {
		return "no estimate"
	}
	whole := e.ends.Sub(e.since).Round(time.Second)
	return fmt.Sprintf("estimate at %.0f%%: %s in total, at least %t, limited by %q", 100*e.share, whole, e.atLeast, e.limitedBy)
}

// look reads the status of the NodeSync.
func (r *pacedRollout) look(ctx context.Context) (estimated, error) {
	var e estimated
	sync, err := r.objects.Resource(nodeSyncs).Namespace(daemon.Namespace).Get(ctx, r.plumbline.syncs[0], metav1.GetOptions{})
	if err != nil {
		return e, fmt.Errorf("read the NodeSync: %w", err)
	}
	rollout, found, err := unstructured.NestedMap(sync.Object, "status", "rollout")
	if err != nil || !found {
		return e, err
	}
	count := func(field string) float64 {
		n, _, _ := unstructured.NestedInt64(rollout, field)
		return float64(n)
	}
	if count("nodes") == 0 {
		return e, nil
	}
	e.share = 1 - count("outdated")/count("nodes")
	e.since = timeAt(rollout, "since")
	e.ends = timeAt(rollout, "estimate", "endsAt")
	e.atLeast, _, _ = unstructured.NestedBool(rollout, "estimate", "atLeast")
	e.limitedBy, _, _ = unstructured.NestedString(rollout, "estimate", "limitedBy")
	return e, nil
}

// timeAt returns the time in a field; zero if there is none.
func timeAt(object map[string]any, path ...string) time.Time {
	text, _, _ := unstructured.NestedString(object, path...)
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// add counts an estimate if it is one of those that are compared.
func (p *Paced) add(e estimated) {
	if e.share < firstShare || e.share > secondShare {
		return
	}
	if e.ends.IsZero() || e.atLeast {
		p.Missing++
		return
	}
	whole := e.ends.Sub(e.since)
	if p.Estimates == 0 {
		p.Least = whole
	}
	p.Estimates++
	p.Least, p.Most, p.LimitedBy = min(p.Least, whole), max(p.Most, whole), e.limitedBy
}

const pacedClassYAML = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: paced}
spec:
  role: KarpenterNodeRole-` + sandbox.DefaultCluster + `
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: ` + sandbox.DefaultCluster + `}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: ` + sandbox.DefaultCluster + `}}]
  tags: {team: %s}
`

// pacedPoolYAML lets one pod of pacedWorkloadYAML run on each node.
const pacedPoolYAML = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: paced}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: paced}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}
        - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["2"]}
      expireAfter: Never
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: Never
    budgets: [{nodes: 5%}]
`

const pacedWorkloadYAML = `apiVersion: apps/v1
kind: Deployment
metadata: {name: paced, namespace: default}
spec:
  replicas: %d
  selector: {matchLabels: {app: paced}}
  template:
    metadata: {labels: {app: paced}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: paced
          image: registry.k8s.io/pause:3.10
          resources: {requests: {cpu: 1100m}}
`
