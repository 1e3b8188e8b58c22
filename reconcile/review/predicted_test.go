package review_test

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

var karpenter = flag.String("karpenter", "", "kubeconfig of a cluster in which Karpenter runs, and which has no node of its own: hold the predictions against it")

//go:embed testdata/predicted
var definitions embed.FS

const (
	// nodes is how many the workloads need.
	nodes = 30
	// settles is the time for Karpenter to find nodes outdated, on a busy machine, and quiet the time in which it must
	// not find others.
	settles, quiet = 60 * time.Second, 3 * time.Second
)

// TestPredictionsEqualKarpenter: the nodes that a Plan says a change replaces are those that the real controller then
// finds Drifted. Budgets of 0 prevent their replacement, so that one change can follow another.
func TestPredictionsEqualKarpenter(t *testing.T) {
	if *karpenter == "" {
		t.Skip("needs a cluster with Karpenter: go test ./property in tests starts one")
	}
	f := newFleet(t)
	f.grow(t)
	for _, c := range slices.Concat(changes(), selectors()) {
		t.Run(c.name, func(t *testing.T) {
			f.file(t, c.file, c.from, c.to)
			will := f.predict(t)
			if len(will.upTo) > 0 || c.nodes != some && len(will.exact) != c.nodes || c.nodes == some && len(will.exact) == 0 {
				t.Errorf("%d nodes are predicted, up to %d more; want %d", len(will.exact), len(will.upTo), c.nodes)
			}
			f.apply(t, "classes.yaml", "pools.yaml")
			f.drifts(t, will)
			f.reset(t)
			f.drifts(t, prediction{})
		})
	}
}

// fleet is a cluster and its definitions in Git.
type fleet struct {
	client    client.Client
	validator *schema.Validator
	files     map[string]string
	// version is the Kubernetes version of the cluster; empty before it was queried.
	version string
}

// owner is the NodeSync that owns the definitions.
var owner = plan.OwnerOf("plumbline-system", "predicted")

func newFleet(t *testing.T) *fleet {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", *karpenter)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{}
	if f.validator, err = schema.New(crds); err != nil {
		t.Fatal(err)
	}
	scheme := clientgoscheme.Scheme
	if err := cluster.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if f.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	f.reset(t)
	return f
}

// reset applies the original definitions.
func (f *fleet) reset(t *testing.T) {
	t.Helper()
	written := f.files != nil
	f.read(t)
	if written {
		f.apply(t, "classes.yaml", "pools.yaml")
	}
}

// read reads the original definitions.
func (f *fleet) read(t *testing.T) {
	t.Helper()
	f.files = map[string]string{}
	for _, name := range []string{"classes.yaml", "pools.yaml", "workloads.yaml"} {
		text, err := definitions.ReadFile("testdata/predicted/" + name)
		if err != nil {
			t.Fatal(err)
		}
		f.files[name] = string(text)
	}
}

// file changes a file.
func (f *fleet) file(t *testing.T, name, from, to string) {
	t.Helper()
	if !strings.Contains(f.files[name], from) {
		t.Fatalf("%s has no %q", name, from)
	}
	f.files[name] = strings.Replace(f.files[name], from, to, 1)
}

// grow makes Karpenter launch the nodes, and waits until it has hashed everything.
func (f *fleet) grow(t *testing.T) {
	t.Helper()
	f.apply(t, "classes.yaml", "pools.yaml", "workloads.yaml")
	f.await(t, 4*time.Minute, "all nodes to be there", func(ctx context.Context) (string, error) {
		live, err := cluster.Live(ctx, f.client)
		if err != nil {
			return "", err
		}
		there := 0
		for _, c := range live.NodeClaims {
			if c.Node != "" && c.Labels != "" {
				there++
			}
		}
		if there != nodes {
			return fmt.Sprintf("%d of %d nodes are there", there, nodes), nil
		}
		return "", nil
	})
}

// set renders the definitions in Git.
func (f *fleet) set(t *testing.T) *render.Set {
	t.Helper()
	tree := fstest.MapFS{"nodes/plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: sandbox, region: eu-west-1}\nmanagement: External\n")}}
	for _, name := range []string{"classes.yaml", "pools.yaml"} {
		tree["nodes/"+name] = &fstest.MapFile{Data: []byte(f.files[name])}
	}
	set, err := render.Render(t.Context(), render.Snapshot{Revision: "main@sha1:1", Commit: "1", FS: tree}, "./nodes", &render.Karpenter{Nodes: []string{"."}}, f.validator)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// await waits until nothing is missing.
func (f *fleet) await(t *testing.T, timeout time.Duration, what string, missing func(context.Context) (string, error)) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, timeout, true, func(ctx context.Context) (done bool, err error) {
		last, err = missing(ctx)
		return last == "", err
	})
	if err != nil {
		t.Fatalf("wait for %s: %v: %s", what, err, last)
	}
}

// apply writes files as the daemon does.
func (f *fleet) apply(t *testing.T, names ...string) {
	t.Helper()
	if slices.Contains(names, "pools.yaml") {
		for _, object := range f.set(t).Objects {
			f.write(t, plan.Desired(object, owner))
		}
	}
	if !slices.Contains(names, "workloads.yaml") {
		return
	}
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(f.files["workloads.yaml"]), 4096)
	for {
		object := &unstructured.Unstructured{}
		switch err := documents.Decode(object); {
		case err == io.EOF: //nolint:errorlint // the decoder's own
			return
		case err != nil:
			t.Fatal(err)
		}
		f.write(t, object)
	}
}

func (f *fleet) write(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	applied := client.ApplyConfigurationFromUnstructured(object)
	if err := f.client.Apply(t.Context(), applied, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}
