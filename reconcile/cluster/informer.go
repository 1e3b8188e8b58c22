package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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
	if err := i.add(config, shared, nodeClaims, nodeClaimKind, Serializer(typed, nodeClaimKind, readNodeClaim)); err != nil {
		return nil, err
	}
	plain := dynamic.ConfigFor(config).NegotiatedSerializer
	for _, kind := range render.Kinds() {
		if err := i.add(config, shared, kind.GVR, kind.GVK, Serializer(plain, kind.GVK, readDefinition)); err != nil {
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

// Refusals are the watches that the API server refuses us, or cannot serve for want
// of a conversion. A cache whose watch is refused is empty, or stands still, and looks like any other. The zero value
// is ready for use.
type Refusals struct {
	mu sync.Mutex
	of map[Reflector]refused
}

// Reflector fills one cache. It is *cache.Reflector of client-go.
type Reflector interface {
	LastSyncResourceVersion() string
	TypeDescription() string
}

// refused is one watch, and how far its cache had come.
type refused struct {
	err error
	at  string
}

// Handle is the cache's handler of watches that fail. It goes on to client-go's
// own, which logs.
func (r *Refusals) Handle(ctx context.Context, reflector *toolscache.Reflector, err error) {
	r.Note(reflector, err)
	toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
}

// Note keeps an error of a watch, if it is a refusal.
func (r *Refusals) Note(reflector Reflector, err error) {
	if _, unconverted := Unconverted(err.Error()); !unconverted && !apierrors.IsForbidden(err) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[Reflector]refused{}
	}
	r.of[reflector] = refused{err: err, at: reflector.LastSyncResourceVersion()}
}

// Err says which watches are refused; nil if none is. A watch that has moved
// its cache since is refused no more: nobody calls to say so.
func (r *Refusals) Err() error {
	_, err := r.Apart("")
	return err
}

// Apart is Err, with the watches of one type, by its description, apart from all others.
func (r *Refusals) Apart(description string) (of, others error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for reflector, watch := range r.of {
		if reflector.LastSyncResourceVersion() != watch.at {
			delete(r.of, reflector)
			continue
		}
		err := fmt.Errorf("watch %s: %w", reflector.TypeDescription(), watch.err)
		if reflector.TypeDescription() == description {
			of = errors.Join(of, err)
			continue
		}
		errs = append(errs, err)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return of, errors.Join(errs...)
}

// Forget forgets the watches of one type: they have ended, and their caches move no more.
func (r *Refusals) Forget(description string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for reflector := range r.of {
		if reflector.TypeDescription() == description {
			delete(r.of, reflector)
		}
	}
}

// Labelled says what the watch cache holds of Secrets and ConfigMaps: those of one
// namespace whose label lets a plumbline.yaml take values of the chart from them.
func Labelled(namespace string) map[client.Object]cache.ByObject {
	rule := cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {}},
		Label:      labels.SelectorFromSet(ValuesLabels()),
		Transform:  trimLabelled,
	}
	return map[client.Object]cache.ByObject{&corev1.Secret{}: rule, &corev1.ConfigMap{}: rule}
}

// ValuesLabels are those of a Secret or ConfigMap that values may be taken from.
func ValuesLabels() labels.Set { return labels.Set{v1alpha1.ValuesLabel: "true"} }

// trimLabelled takes off what is noted on an object: kubectl notes all that is in
// it once more.
func trimLabelled(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
		object.SetAnnotations(nil)
	}
	return obj, nil
}

// dnsNamespace is where the main chart creates a Role for the cluster's DNS, whatever its own namespace is
// (charts/karpenter/templates/role.yaml in karpenter-provider-aws).
const dnsNamespace = metav1.NamespaceSystem

// Narrow limits the watches of Karpenter's Deployment and of what its charts make to namespaces, so that a Role
// in each of them is enough. No namespaces: all, which needs a ClusterRole.
func Narrow(objects map[client.Object]cache.ByObject, namespaces []string) {
	if len(namespaces) == 0 {
		return
	}
	for object, rule := range objects {
		var kind string
		switch o := object.(type) {
		case *appsv1.Deployment:
			kind = "Deployment"
		case *metav1.PartialObjectMetadata:
			kind = o.Kind
		}
		switch kind {
		case "", "ClusterRole", "ClusterRoleBinding":
			continue
		}
		rule.Namespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			rule.Namespaces[namespace] = cache.Config{}
		}
		if kind == "Role" || kind == "RoleBinding" {
			rule.Namespaces[dnsNamespace] = cache.Config{}
		}
		objects[object] = rule
	}
}

// AddToScheme registers NodeClaims with a scheme. Karpenter's own package
// registers its types only with client-go's global scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(version, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}
