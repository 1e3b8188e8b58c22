package stories_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// cluster is a sandbox in which plumbline is installed.
type cluster struct {
	*sandbox.Sandbox
	objects dynamic.Interface
	// spoiled: a story left something behind; the next one gets another cluster.
	spoiled bool
}

func boot(ctx context.Context, root string, installed bool) (*cluster, error) {
	s, err := sandbox.Up(ctx, sandbox.Options{FromSnapshot: installed, WithGit: true, Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	c := &cluster{Sandbox: s}
	if c.objects, err = dynamic.NewForConfig(s.Kube.Config); err == nil {
		err = daemon.Install(ctx, s.Kube, root)
	}
	if err != nil {
		return nil, fmt.Errorf("install plumbline: %w (ended: %w)", err, s.Down())
	}
	return c, nil
}

// kinds are those that stories speak of.
var kinds = map[string]schema.GroupVersionResource{
	"nodesync":     {Group: "plumbline.dev", Version: "v1alpha1", Resource: "nodesyncs"},
	"nodepool":     {Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
	"nodeclaim":    {Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"},
	"ec2nodeclass": {Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"},
	"crd":          {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"node":         {Version: "v1", Resource: "nodes"},
	"deployment":   {Group: "apps", Version: "v1", Resource: "deployments"},
}

// list are the objects of a kind in all namespaces; none if the cluster does
// not know it.
func (c *cluster) list(ctx context.Context, kind string) []unstructured.Unstructured {
	all, err := c.objects.Resource(kinds[kind]).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	return all.Items
}

// check holds that a story left the cluster as it found it.
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

// booting is a cluster that is being made.
type booting struct {
	done    chan struct{}
	cluster *cluster
	err     error
	began   time.Time
}

// ground hands out clusters, and boots the next one while a story is told on
// the last.
type ground struct {
	ctx     context.Context // of all clusters, which Down ends
	root    string
	stories []entry
	ending  sync.WaitGroup

	current *cluster
	madeFor int // the story that current was made for
	next    *booting
	nextFor int // the story that next is made for
}

func newGround(t *testing.T, root string, stories []entry) *ground {
	g := &ground{ctx: context.WithoutCancel(t.Context()), root: root, stories: stories, nextFor: -1}
	t.Cleanup(func() {
		if g.next != nil {
			<-g.next.done
			g.end(t, g.next.cluster)
		}
		g.end(t, g.current)
		g.ending.Wait()
	})
	return g
}

// cluster is the one that story i is told on.
func (g *ground) cluster(t *testing.T, i int) *cluster {
	if g.current != nil && !g.current.spoiled && g.stories[i].sharesClusterWith(g.stories[g.madeFor]) {
		return g.current
	}
	g.end(t, g.current)
	g.current = nil
	if g.next == nil || g.stories[g.nextFor].installed != g.stories[i].installed {
		g.boot(i)
	}
	waited := time.Now()
	<-g.next.done
	made := g.next
	g.next = nil
	if made.err != nil {
		t.Fatal(made.err)
	}
	t.Logf("a cluster after %.1fs, of which %.1fs were waited for", waited.Sub(made.began).Seconds()+time.Since(waited).Seconds(), time.Since(waited).Seconds())
	g.current, g.madeFor = made.cluster, i
	for later := i + 1; later < len(g.stories); later++ {
		if !g.stories[later].sharesClusterWith(g.stories[i]) {
			g.boot(later)
			break
		}
	}
	return g.current
}

// boot begins to make the cluster of story i, beside what is going on.
func (g *ground) boot(i int) {
	if g.next != nil { // of another kind than is needed now
		unneeded := g.next
		g.ending.Go(func() {
			<-unneeded.done
			if unneeded.cluster != nil {
				_ = unneeded.cluster.Down()
			}
		})
	}
	b := &booting{done: make(chan struct{}), began: time.Now()}
	g.next, g.nextFor = b, i
	go func() {
		defer close(b.done)
		b.cluster, b.err = boot(g.ctx, g.root, g.stories[i].installed)
	}()
}

// end ends a cluster beside what is going on.
func (g *ground) end(t *testing.T, c *cluster) {
	if c == nil {
		return
	}
	g.ending.Go(func() {
		if err := c.Down(); err != nil {
			t.Logf("end a sandbox: %v", err)
		}
	})
}
