package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
)

// cluster is what a command speaks to, uncached, as the user.
type cluster struct {
	client.WithWatch
	config *rest.Config
	// namespace is that of -n, or of the kubeconfig's context; settled says that it is the one
	// whose NodeSyncs are meant.
	namespace string
	settled   bool
}

// nowhere is the server of client-go where nothing names one.
const nowhere = "http://localhost:8080"

// errNoKubeconfig says that nothing names a cluster.
var errNoKubeconfig = errors.New("no kubeconfig")

// connect finds the cluster of the kubeconfig flags. It asks nothing yet. With ctx every request ends.
func connect(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags) (*cluster, error) {
	loader := kubeconfig.ToRawKubeConfigLoader()
	config, err := kubeconfig.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (--kubeconfig, --context): %w", err)
	}
	if raw, err := loader.RawConfig(); err == nil && len(raw.Clusters) == 0 && config.Host == nowhere {
		return nil, fmt.Errorf("%w: looked for %s; give one with --kubeconfig or KUBECONFIG", errNoKubeconfig, strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "))
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
	ctrl.SetLogger(logr.Discard()) // else controller-runtime warns on the terminal after 30 s that nobody has
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, explain(err, "connect to "+config.Host)
	}
	return &cluster{WithWatch: c, config: config, namespace: namespace, settled: *kubeconfig.Namespace != ""}, nil
}

// interruptible ends requests with a context: client-go's discovery takes none.
type interruptible struct {
	//nolint:containedctx // a RoundTripper gets no other one
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip is that of the next one. What is left of a request ends with the command.
func (i interruptible) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, stop := context.WithCancel(r.Context())
	context.AfterFunc(i.ctx, stop)
	return i.next.RoundTrip(r.WithContext(ctx))
}

// nodeSync reads one NodeSync, which is named as kubectl names objects: prod or nodesync/prod.
func (c *cluster) nodeSync(ctx context.Context, arg string) (*v1alpha1.NodeSync, error) {
	name, err := nameOf(arg)
	if err != nil {
		return nil, err
	}
	sync, namespace := &v1alpha1.NodeSync{}, c.in(ctx)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, sync); err != nil {
		return nil, explain(err, fmt.Sprintf("read NodeSync %s/%s", namespace, name))
	}
	sync.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	sync.ManagedFields = nil
	c.takeStandIn(ctx, sync)
	return sync, nil
}

// takeStandIn has a NodeSync say, as its annotation would, that its status is that of an
// earlier pass, where the daemon could not annotate it. Who may not read ConfigMaps does not
// get to know.
func (c *cluster) takeStandIn(ctx context.Context, sync *v1alpha1.NodeSync) {
	if message, err := conclude.StandIn(ctx, c, sync); err == nil && message != "" {
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.StatusNotWrittenAnnotation, message)
	}
}
