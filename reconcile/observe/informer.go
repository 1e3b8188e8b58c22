package observe

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe/wire"
	"github.com/plumbline-dev/plumbline/render"
)

// Informers fill the watch cache. Those of Karpenter's kinds, of which there are thousands of
// objects, read what the API server sends by package wire.
type Informers struct {
	clients map[schema.GroupVersionKind]watchClient
}

// watchClient watches one kind.
type watchClient struct {
	rest.Interface

	resource string
}

// NewInformers makes the clients.
func NewInformers(config *rest.Config) (*Informers, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of watches: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register NodeClaims: %w", err)
	}
	typed := serializer.NewCodecFactory(scheme).WithoutConversion()
	i := &Informers{clients: map[schema.GroupVersionKind]watchClient{}}
	if err := i.add(config, shared, nodeClaims, nodeClaimKind, wire.Serializer(typed, nodeClaimKind, readNodeClaim)); err != nil {
		return nil, err
	}
	plain := dynamic.ConfigFor(config).NegotiatedSerializer
	for _, kind := range render.Kinds() {
		if err := i.add(config, shared, kind.GVR, kind.GVK, wire.Serializer(plain, kind.GVK, readDefinition)); err != nil {
			return nil, err
		}
	}
	return i, nil
}

var (
	nodeClaims    = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	nodeClaimKind = nodeClaims.GroupVersion().WithKind("NodeClaim")
)

func (i *Informers) add(config *rest.Config, shared *http.Client, of schema.GroupVersionResource, kind schema.GroupVersionKind, reads runtime.NegotiatedSerializer) error {
	own, version := dynamic.ConfigFor(config), of.GroupVersion()
	own.APIPath, own.GroupVersion, own.NegotiatedSerializer = "/apis", &version, reads
	client, err := rest.RESTClientForConfigAndClient(own, shared)
	if err != nil {
		return fmt.Errorf("make the client that watches %s: %w", of.Resource, err)
	}
	i.clients[kind] = watchClient{client, of.Resource}
	return nil
}

// readDefinition reads the JSON of a NodePool or an EC2NodeClass.
func readDefinition(raw []byte) (runtime.Object, error) {
	definition := &unstructured.Unstructured{}
	return definition, json.Unmarshal(raw, &definition.Object)
}

// New makes the informer of a kind. The watch of a kind that has none of its own is the given one.
func (i *Informers) New(lists toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if client, known := i.clients[kindOf(example)]; known {
		lists = &toolscache.ListWatch{
			ListWithContextFunc:  toolscache.ToListerWatcherWithContext(lists).ListWithContext,
			WatchFuncWithContext: client.watch,
		}
	}
	return toolscache.NewSharedIndexInformer(lists, example, resync, indexers)
}

// kindOf is what is watched: a NodeClaim as Karpenter's type, a definition as its fields.
func kindOf(example runtime.Object) schema.GroupVersionKind {
	switch example.(type) {
	case *karpv1.NodeClaim:
		return nodeClaimKind
	case *unstructured.Unstructured:
		return example.GetObjectKind().GroupVersionKind()
	}
	return schema.GroupVersionKind{}
}

func (c watchClient) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch, options.AllowWatchBookmarks = true, true
	return c.Get().Resource(c.resource).
		SpecificallyVersionedParams(&options, clientgoscheme.ParameterCodec, schema.GroupVersion{Version: "v1"}).
		Watch(ctx)
}
