package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// checkEvery is how often all is looked at.
	checkEvery = 2 * time.Second
	// noticed is how long the daemon, undisturbed, may leave a status that is not
	// true: an edit by hand is one until it is put right.
	noticed = 20 * time.Second
)

// user is the daemon in the API server's audit.
const user = "system:serviceaccount:" + daemon.Namespace + ":" + daemon.ServiceAccount

// checker looks all the time for what must not be.
type checker struct {
	*soak

	read    int64 // of the audit, in bytes
	deletes map[string]int

	lie      string    // what is not true
	lieSince time.Time // since when
}

func newChecker(s *soak) *checker { return &checker{soak: s, deletes: map[string]int{}} }

// run checks until the context ends, or ends it with what was found.
func (c *checker) run(ctx context.Context, found context.CancelCauseFunc) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, check := range []func(context.Context) error{c.checkDeletes, c.checkStatus} {
			if err := check(ctx); err != nil && ctx.Err() == nil {
				found(err)
			}
		}
	}, checkEvery)
}

// checkDeletes holds that nothing was deleted that Git wants.
func (c *checker) checkDeletes(context.Context) error {
	writes, read, err := c.sandbox.Kube.Audit(c.read)
	if err != nil {
		return err
	}
	c.read = read
	for _, w := range writes {
		if w.User != user || !strings.HasPrefix(w.Verb, "delete") || w.Code >= 300 {
			continue
		}
		c.deletes[w.Resource]++
		if reason := forbidden(w, c.history); reason != "" {
			return fmt.Errorf("violation: the daemon did %s at %s: %s", w, w.Time.Format(time.RFC3339Nano), reason)
		}
	}
	return nil
}

// forbidden says why the daemon must not have deleted something; empty if it may.
func forbidden(w kube.Write, h *history) string {
	name := w.Name
	kind := w.Resource
	switch kind {
	case nodePools, nodeClasses:
	case nodeClaims:
		kind, name = nodePools, poolOf(w.Name)
	default:
		return "it never deletes such a thing"
	}
	if h.wanted(kind, name, w.Time.Add(-remembered), w.Time) {
		return fmt.Sprintf("each HEAD of the last %s has %s/%s", remembered, kind, name)
	}
	return ""
}

// poolOf is the pool of a NodeClaim, whose name is the pool's and a random suffix.
func poolOf(claim string) string { return claim[:max(0, strings.LastIndex(claim, "-"))] }

// checkStatus holds that a NodeSync that is Ready says the truth. Between a write
// by somebody else and its correction it cannot, so that only what lasts is a lie.
func (c *checker) checkStatus(ctx context.Context) error {
	lie, err := c.untruth(ctx)
	if err != nil {
		return nil //nolint:nilerr // the API server may be away; the next look tells
	}
	if lie == "" || lie != c.lie {
		c.lie, c.lieSince = lie, time.Now()
	}
	since, quiet := c.faults.quietSince()
	if from := later(c.lieSince, since); c.lie != "" && quiet && time.Since(from) > noticed {
		return fmt.Errorf("violation: the status is not true, and the daemon was undisturbed for %s: %s", noticed, c.lie)
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// untruth says what is not as the Ready NodeSync says.
func (c *checker) untruth(ctx context.Context) (string, error) {
	before, err := c.sync(ctx)
	if err != nil {
		return "", err
	}
	commit, ready := readyAt(before)
	if !ready {
		return "", nil
	}
	said, known := c.history.at(commit)
	switch {
	case !known:
		return "Ready at " + commit + ", which was never pushed", nil
	case said.broken:
		return "Ready at " + commit + ", which does not render", nil
	}
	untrue, err := c.unlike(ctx, said)
	if err != nil || untrue == "" {
		return "", err
	}
	after, err := c.sync(ctx)
	if err != nil || after.GetResourceVersion() != before.GetResourceVersion() {
		return "", err
	}
	return fmt.Sprintf("Ready at %s, but %s", commit, untrue), nil
}

func (s *soak) sync(ctx context.Context) (*unstructured.Unstructured, error) {
	return s.objects.Resource(syncResource).Namespace(daemon.Namespace).Get(ctx, syncName, metav1.GetOptions{})
}

// readyAt is the commit at which a NodeSync is Ready.
func readyAt(sync *unstructured.Unstructured) (commit string, ready bool) {
	revision, _, _ := unstructured.NestedString(sync.Object, "status", "lastAppliedRevision")
	_, commit, _ = strings.Cut(revision, "sha1:")
	return commit, condition(sync, "Ready")["status"] == "True"
}

// condition are the fields of a condition.
func condition(object *unstructured.Unstructured, kind string) map[string]any {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range all {
		if fields, ok := one.(map[string]any); ok && fields["type"] == kind {
			return fields
		}
	}
	return nil
}

// unlike says how the cluster's definitions differ from a fleet's; empty if in
// nothing.
func (s *soak) unlike(ctx context.Context, f fleet) (string, error) {
	pools, err := s.objects.Resource(poolResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	classes, err := s.objects.Resource(classResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	return difference(f, pools.Items, classes.Items), nil
}

// difference compares what a fleet says with what there is.
func difference(f fleet, pools, classes []unstructured.Unstructured) string {
	live := fleet{pools: map[string]pool{}, classes: map[string]class{}}
	for _, object := range pools {
		live.pools[object.GetName()] = livePool(object)
	}
	for _, object := range classes {
		team, _, _ := unstructured.NestedString(object.Object, "spec", "tags", "team")
		live.classes[object.GetName()] = class{team: team}
	}
	for _, name := range append(f.poolNames(), live.poolNames()...) {
		wanted, wants := f.pools[name]
		is, there := live.pools[name]
		if wants != there || wanted != is {
			return fmt.Sprintf("pool %s: Git has it %v, %+v; the cluster %v, %+v", name, wants, wanted, there, is)
		}
	}
	for _, name := range append(f.classNames(), live.classNames()...) {
		wanted, wants := f.classes[name]
		is, there := live.classes[name]
		if wants != there || wanted != is {
			return fmt.Sprintf("class %s: Git has it %v, %+v; the cluster %v, %+v", name, wants, wanted, there, is)
		}
	}
	return ""
}

func livePool(object unstructured.Unstructured) pool {
	var p pool
	p.class, _, _ = unstructured.NestedString(object.Object, "spec", "template", "spec", "nodeClassRef", "name")
	weight, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "weight")
	cpu, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "limits", "cpu")
	if _, err := fmt.Sscan(fmt.Sprint(weight, " ", cpu), &p.weight, &p.cpu); err != nil || object.GetDeletionTimestamp() != nil {
		p.cpu = -1 // going, or without a limit: never what Git says
	}
	return p
}
