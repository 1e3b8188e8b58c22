package stories_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// cluster is a sandbox in which plumbline is installed.
type cluster struct {
	*sandbox.Sandbox
	objects dynamic.Interface
	// spoiled is true if a story left something behind; the next one gets another cluster.
	spoiled bool
}

func boot(ctx context.Context, root string, kind groundKind) (*cluster, error) {
	return bootOf(ctx, root, sandbox.Options{FromSnapshot: kind.installed, Bare: kind.bare, Kubernetes: kind.kubernetes, WithGit: true})
}

// bootBeside starts an empty cluster in the account of another one, with the same charts and Git host.
func bootBeside(ctx context.Context, root, name string, kind groundKind, first *cluster) (*cluster, error) {
	c, err := bootOf(ctx, root, sandbox.Options{Cluster: name, Beside: first.Sandbox, WithPlumbline: true, Kubernetes: kind.kubernetes})
	if err == nil {
		c.Git = first.Git
	}
	return c, err
}

func bootOf(ctx context.Context, root string, options sandbox.Options) (*cluster, error) {
	options.Progress, options.AdminGroups = os.Stderr, []string{daemon.BreakGlassGroup}
	s, err := sandbox.Up(ctx, options)
	if err != nil {
		return nil, err
	}
	c := &cluster{Sandbox: s}
	if c.objects, err = dynamic.NewForConfig(s.Kube.Config); err == nil && !options.Bare {
		err = daemon.Install(ctx, s.Kube, root)
	}
	if err != nil {
		return nil, fmt.Errorf("install plumbline: %w (ended: %w)", err, s.Down())
	}
	return c, nil
}

// kinds are those that stories may name.
var kinds = map[string]schema.GroupVersionResource{
	"nodesync":     {Group: "plumbline.dev", Version: "v1alpha1", Resource: "nodesyncs"},
	"nodepool":     {Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
	"nodeclaim":    {Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"},
	"nodeoverlay":  {Group: "karpenter.sh", Version: "v1alpha1", Resource: "nodeoverlays"},
	"ec2nodeclass": {Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"},
	"crd":          {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"node":         {Version: "v1", Resource: "nodes"},
	"deployment":   {Group: "apps", Version: "v1", Resource: "deployments"},
}

// list returns the objects of a kind in all namespaces; none if the cluster does not know the kind.
func (c *cluster) list(ctx context.Context, kind string) []unstructured.Unstructured {
	all, err := c.objects.Resource(kinds[kind]).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return all.Items
}

// instances returns all instances that EC2 still knows, without those of other clusters.
func (c *cluster) instances() []awssim.Instance {
	const of = "kubernetes.io/cluster/"
	return slices.DeleteFunc(c.AWS.Instances(), func(i awssim.Instance) bool {
		_, ours := i.Tags[of+c.Cluster]
		return !ours && slices.ContainsFunc(slices.Collect(maps.Keys(i.Tags)), func(tag string) bool { return strings.HasPrefix(tag, of) })
	})
}

// check checks that a story left the cluster as it found it.
func (c *cluster) check(t *testing.T) {
	if t.Failed() {
		c.spoiled = true
		return
	}
	for _, kind := range []string{"nodesync", "nodepool", "nodeclaim", "ec2nodeclass"} {
		for _, object := range c.list(t.Context(), kind) {
			c.spoiled = true
			t.Errorf("the story left %s/%s behind", kind, object.GetName())
		}
	}
	if left := c.AWS.Left(c.Cluster); !left.Empty() {
		c.spoiled = true
		t.Errorf("the story left in AWS: %s", left)
	}
}

// ground provides the cluster for the stories of a group, one after another. It replaces a cluster that a story has
// spoiled.
type ground struct {
	t       *testing.T // of all stories
	root    string
	kind    groundKind
	current *cluster
}

// cluster returns the one for the next story.
func (g *ground) cluster(t *testing.T) *cluster {
	if g.current != nil && !g.current.spoiled {
		return g.current
	}
	g.end()
	began := time.Now()
	var err error
	if g.current, err = boot(g.t.Context(), g.root, g.kind); err != nil {
		t.Fatal(err)
	}
	t.Logf("a cluster after %.1fs", time.Since(began).Seconds())
	return g.current
}

// end stops the cluster, if there is one.
func (g *ground) end() {
	if g.current == nil {
		return
	}
	if err := g.current.Down(); err != nil {
		g.t.Logf("end a sandbox: %v", err)
	}
	g.current = nil
}
