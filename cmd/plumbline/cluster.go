package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// clusterAccess accesses the cluster of a command, uncached and with the user's permissions.
type clusterAccess struct {
	client.WithWatch
	config *rest.Config
	// namespace is that of -n, or of the kubeconfig's context. settled is true once it is the namespace whose NodeSyncs
	// the command uses.
	namespace string
	settled   bool
}

// defaultServer is client-go's default server if no configuration specifies one.
const defaultServer = "http://localhost:8080"

// errNoKubeconfig is returned if no configuration specifies a cluster.
var errNoKubeconfig = errors.New("no kubeconfig")

// connect finds the cluster of the kubeconfig flags, without sending a request. Requests are cancelled with ctx.
func connect(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags) (*clusterAccess, error) {
	loader := kubeconfig.ToRawKubeConfigLoader()
	config, err := kubeconfig.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (--kubeconfig, --context): %w", err)
	}
	if raw, err := loader.RawConfig(); err == nil && len(raw.Clusters) == 0 && config.Host == defaultServer {
		return nil, fmt.Errorf("%w: looked for %s; give one with --kubeconfig or KUBECONFIG",
			errNoKubeconfig, strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "))
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read the namespace of the kubeconfig's context: %w", err)
	}
	config.UserAgent = "plumbline-cli/" + version
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return interruptible{ctx, next} })
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	ctrl.SetLogger(logr.Discard()) // otherwise, after 30 s, controller-runtime warns on the terminal that nobody has
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, explain(err, "connect to "+config.Host)
	}
	return &clusterAccess{WithWatch: c, config: config, namespace: namespace, settled: *kubeconfig.Namespace != ""}, nil
}

// interruptible cancels requests with a context: client-go's discovery takes none.
type interruptible struct {
	//nolint:containedctx // a RoundTripper gets no other one
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip sends the request; it is cancelled together with the command.
func (i interruptible) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, stop := context.WithCancel(r.Context())
	context.AfterFunc(i.ctx, stop)
	return i.next.RoundTrip(r.WithContext(ctx))
}

// kubernetes returns the version of the API server.
func (c *clusterAccess) kubernetes() (string, error) {
	served, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return "", explain(err, "connect to "+c.config.Host)
	}
	found, err := served.ServerVersion()
	if err != nil {
		return "", explain(err, "read the version of the API server")
	}
	return found.GitVersion, nil
}

// nodeSync reads one NodeSync by its name in kubectl's notation: prod or nodesync/prod.
func (c *clusterAccess) nodeSync(ctx context.Context, arg string) (*v1alpha1.NodeSync, error) {
	name, err := nameOf(arg)
	if err != nil {
		return nil, err
	}
	sync, namespace := &v1alpha1.NodeSync{}, c.namespaceOfNodeSyncs(ctx)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, sync); err != nil {
		return nil, explain(err, fmt.Sprintf("read NodeSync %s/%s", namespace, name))
	}
	sync.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	sync.ManagedFields = nil
	c.applyStandInStatus(ctx, sync)
	return sync, nil
}

// applyStandInStatus annotates a NodeSync (in memory) as the daemon would have: its status is that of an earlier
// reconcile, but the daemon could not write the annotation. Without permission to read ConfigMaps it does nothing.
func (c *clusterAccess) applyStandInStatus(ctx context.Context, sync *v1alpha1.NodeSync) {
	if message, err := status.StandIn(ctx, c, sync); err == nil && message != "" {
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.StatusNotWrittenAnnotation, message)
	}
}

const (
	// maxBelow is the maximum number of folders with a plumbline.yaml to list.
	maxBelow = 5
	// To find them, it looks at up to maxLooked files, and deepest folders down.
	maxLooked, deepest = 20_000, 6
)

// hasCluster returns an error if a folder has no plumbline.yaml; it lists those below it that have one.
func hasCluster(folder string) error {
	if _, err := os.Lstat(filepath.Join(folder, render.FileName)); err == nil {
		return nil
	}
	if found := clustersBelow(folder); len(found) > 0 {
		return fmt.Errorf("%s contains no %s; these folders do: %s; give the folder of one cluster",
			folder, render.FileName, strings.Join(found, ", "))
	}
	return fmt.Errorf("neither %s nor a folder below it contains %s: give the folder of a cluster, or create the file (docs/reference/plumbline-yaml.md)", folder, render.FileName)
}

// clustersBelow returns the first few folders that contain a plumbline.yaml.
func clustersBelow(folder string) []string {
	var found []string
	looked := 0
	// Unreadable folders are skipped.
	_ = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		looked++
		switch {
		case looked > maxLooked || len(found) > maxBelow:
			return fs.SkipAll
		case err != nil, entry.IsDir() && name != folder && hiddenOrDeep(folder, name):
			return fs.SkipDir
		case !entry.IsDir() && entry.Name() == render.FileName:
			found = append(found, filepath.Dir(name))
		}
		return nil
	})
	if len(found) > maxBelow {
		found = append(found[:maxBelow], "…")
	}
	return found
}

func hiddenOrDeep(folder, name string) bool {
	below, err := filepath.Rel(folder, name)
	return err != nil || strings.HasPrefix(filepath.Base(name), ".") || strings.Count(below, string(filepath.Separator)) >= deepest
}

// explain adds instructions to an error of the API server. errUnreachable means that the cluster does not respond.
var errUnreachable = errors.New("the cluster cannot be reached")

func explain(err error, doing string) error {
	var silent *url.Error
	switch {
	case errors.As(err, &silent):
		return fmt.Errorf("%s: %w (%w): check --kubeconfig, --context and the way to %s", doing, errUnreachable, silent.Err, hostOf(silent.URL))
	case apimeta.IsNoMatchError(err):
		return fmt.Errorf("%s: plumbline is not installed in this cluster (its CRD is missing): helm install plumbline manifests/chart, or kubectl apply -k manifests", doing)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: it does not exist; `plumbline get -A` lists all", doing)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: you are not allowed to: %w", doing, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: authentication failed (%w): log in again", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Host
}

// defaultNamespace is the namespace that the manifests create for the daemon.
const defaultNamespace = "plumbline-system"

// nameOf parses a NodeSync's name in kubectl's notation: prod, nodesync/prod or nodesyncs/prod.
func nameOf(arg string) (string, error) {
	kind, name, typed := strings.Cut(arg, "/")
	switch {
	case !typed:
		return arg, nil
	case !slices.Contains([]string{"nodesync", "nodesyncs", "nodesync.plumbline.dev", "nodesyncs.plumbline.dev"}, strings.ToLower(kind)):
		return "", fmt.Errorf("%s is no name of a NodeSync: give NAME or nodesync/NAME", arg)
	case name == "" || strings.Contains(name, "/"):
		return "", fmt.Errorf("%s names no NodeSync: give nodesync/NAME", arg)
	}
	return name, nil
}

// refOfArgument parses KIND/NAME of a definition, with the kind in kubectl's notation.
func refOfArgument(arg string) (render.Ref, error) {
	kind, name, _ := strings.Cut(arg, "/")
	for _, known := range render.Kinds() {
		singular := strings.ToLower(known.GVK.Kind)
		if names := []string{singular, known.GVR.Resource, singular + "." + known.GVK.Group, known.CRD}; name != "" &&
			slices.Contains(names, strings.ToLower(kind)) {
			return render.Ref{Kind: known.GVK.Kind, Name: name}, nil
		}
	}
	return render.Ref{}, fmt.Errorf("%q is no definition: give NodePool/NAME or EC2NodeClass/NAME", arg)
}

// nodeSyncWord names a NodeSync in messages, in whichever notation the user named it.
func nodeSyncWord(arg string) string {
	if name, err := nameOf(arg); err == nil {
		return "nodesync/" + name
	}
	return arg
}

// namespaceOfNodeSyncs returns the namespace whose NodeSyncs the command uses: that of -n; that of the kubeconfig's
// context if it contains any; otherwise that of the daemon, which serves no other namespace, even if it contains none
// yet.
func (c *clusterAccess) namespaceOfNodeSyncs(ctx context.Context) string {
	if c.settled {
		return c.namespace
	}
	c.settled = true
	if has, err := c.hasNodeSync(ctx, c.namespace); has || err != nil && !apierrors.IsForbidden(err) {
		return c.namespace
	}
	daemons := c.daemons(ctx)
	for _, namespace := range append(slices.Clone(daemons), defaultNamespace) {
		if has, _ := c.hasNodeSync(ctx, namespace); has {
			c.namespace = namespace
			return namespace
		}
	}
	if len(daemons) > 0 {
		c.namespace = daemons[0] // the first NodeSync will be created here
	}
	return c.namespace
}

// hasNodeSync reports whether a namespace contains a NodeSync.
func (c *clusterAccess) hasNodeSync(ctx context.Context, namespace string) (bool, error) {
	list := &v1alpha1.NodeSyncList{}
	err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
	return len(list.Items) > 0, err
}

// installed returns an error if the API server does not serve NodeSyncs: otherwise commands that read other kinds would
// find nothing, and not tell why.
func (c *clusterAccess) installed(ctx context.Context, doing string) error {
	if _, err := c.hasNodeSync(ctx, c.namespaceOfNodeSyncs(ctx)); err != nil && !apierrors.IsForbidden(err) {
		return explain(err, doing)
	}
	return nil
}

// daemons returns the namespaces with a Deployment of plumbline; none if the user may not list them.
func (c *clusterAccess) daemons(ctx context.Context) (namespaces []string) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeploymentList"))
	list.APIVersion = "apps/v1"
	if err := c.List(ctx, list, client.MatchingLabels(daemonLabels())); err != nil {
		return nil
	}
	for i := range list.Items {
		namespaces = append(namespaces, list.Items[i].Namespace)
	}
	return namespaces
}

// definitionsOf returns a cluster's objects of a kind, regardless of owner; none if the cluster does not serve the
// kind.
func definitionsOf(ctx context.Context, c client.Reader, kind render.Kind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := c.List(ctx, list); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list "+kind.GVK.Kind+"s")
	}
	return list.Items, nil
}

// poolsWithClaims reads the pools that a NodeSync owns, and the NodeClaims of all pools, by pool.
func poolsWithClaims(
	ctx context.Context, c client.Client, sync *v1alpha1.NodeSync,
) (pools []*unstructured.Unstructured, claims map[string][]*karpv1.NodeClaim, err error) {
	kind, _ := render.KindOf(render.NodePool)
	objects, err := definitionsOf(ctx, c, kind)
	if err != nil {
		return nil, nil, err
	}
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for i := range objects {
		if pool := &objects[i]; owner.Owns(pool) {
			pools = append(pools, pool)
		}
	}
	all := &karpv1.NodeClaimList{}
	if err := c.List(ctx, all); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, nil, explain(err, "list NodeClaims")
	}
	claims = map[string][]*karpv1.NodeClaim{}
	for i := range all.Items {
		pool := poolOf(&all.Items[i])
		claims[pool] = append(claims[pool], &all.Items[i])
	}
	return pools, claims, nil
}

// poolOf returns the name of a NodeClaim's NodePool.
func poolOf(claim *karpv1.NodeClaim) string { return claim.Labels[karpv1.NodePoolLabelKey] }

// poolsOf counts the NodeClaims of each pool that the NodeSync owns.
func poolsOf(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) ([]summary.Pool, error) {
	owned, claims, err := poolsWithClaims(ctx, c, sync)
	if err != nil {
		return nil, err
	}
	return summary.Pools(owned, claims), nil
}
