package judge

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	benchOld, benchNew, benchPods = 4936, 64, 30
	// benchFailing is how many of the workloads on the wave's nodes fail in the second case.
	benchFailing = 20
)

// BenchmarkLook measures one look at a wave of 64 nodes with 30 pods each, among 5,000 nodes, over HTTP: with pods of 7
// KB and nodes of 15 KB, as protobuf. It prints the bytes that the API server sends, and those that the Observation
// keeps. The time includes the server's, which has all answers ready.
func BenchmarkLook(b *testing.B) {
	for name, failing := range map[string]int{"all-work": 0, "20-fail": benchFailing} {
		b.Run(name, func(b *testing.B) {
			api := newAPI(b, failing)
			wave := Wave{Pool: "general", Began: began}
			for i := range benchNew {
				wave.New = append(wave.New, fmt.Sprintf("new%d", i))
			}
			for i := range benchOld {
				wave.Old = append(wave.Old, fmt.Sprintf("old%d", i))
			}
			reader := api.client(b)
			var seen Observation
			api.sent.Store(0)
			for b.Loop() {
				var err error
				if seen, err = Observe(b.Context(), reader, wave, now); err != nil {
					b.Fatal(err)
				}
				Judge(seen, now)
			}
			b.ReportMetric(float64(api.sent.Load())/float64(b.N)/1e6, "MB-sent/look")
			b.ReportMetric(float64(kept(seen))/1e6, "MB-kept")
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/lookEvery.Seconds(), "%-of-a-core")
		})
	}
}

// kept returns how many bytes of the heap an Observation keeps.
func kept(seen Observation) uint64 {
	var with, without runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&with)
	runtime.KeepAlive(seen.Pods)
	seen = Observation{}
	runtime.GC()
	runtime.ReadMemStats(&without)
	if with.HeapAlloc < without.HeapAlloc {
		return 0
	}
	return with.HeapAlloc - without.HeapAlloc
}

// api is an API server whose answers are encoded before they are read.
type api struct {
	url     string
	sent    atomic.Int64
	answers map[string]answer
}

type answer struct {
	kind string
	body []byte
}

// oldNode is the start of the paths of old nodes, which all have the same answer.
const oldNode = "/api/v1/nodes/old"

func newAPI(b *testing.B, failing int) *api {
	b.Helper()
	a := &api{answers: map[string]answer{}}
	scheme := newScheme()
	serializer := protobuf.NewSerializer(scheme, scheme)
	add := func(key string, object kruntime.Object, kind schema.GroupVersionKind) {
		object.GetObjectKind().SetGroupVersionKind(kind)
		var body strings.Builder
		if err := serializer.Encode(object, &body); err != nil {
			b.Fatal(err)
		}
		a.answers[key] = answer{kruntime.ContentTypeProtobuf, []byte(body.String())}
	}
	addJSON := func(key string, object any) {
		body, err := json.Marshal(object)
		if err != nil {
			b.Fatal(err)
		}
		a.answers[key] = answer{kruntime.ContentTypeJSON, body}
	}
	add(oldNode, benchNode("old"), corev1.SchemeGroupVersion.WithKind("Node"))
	for i := range benchNew {
		name := fmt.Sprintf("new%d", i)
		add("/api/v1/nodes/"+name, benchNode(name), corev1.SchemeGroupVersion.WithKind("Node"))
		claim := aClaim(name)
		claim.TypeMeta = metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim"}
		claim.Annotations = map[string]string{"padding": strings.Repeat("x", 4000)}
		addJSON("/apis/karpenter.sh/v1/nodeclaims/"+name, claim)
		pods := &corev1.PodList{}
		for p := range benchPods {
			var options []podOption
			if p < failing {
				options = append(options, crashes)
			}
			pods.Items = append(pods.Items, *benchPod(p, name, options...))
		}
		add("/api/v1/pods?spec.nodeName="+name, pods, corev1.SchemeGroupVersion.WithKind("PodList"))
	}
	for p := range failing {
		pods := &corev1.PodList{}
		for i := range page {
			pods.Items = append(pods.Items, *benchPod(p, fmt.Sprintf("old%d", i)))
		}
		add("/api/v1/namespaces/gpu/pods?pod-template-hash="+benchHash(p), pods, corev1.SchemeGroupVersion.WithKind("PodList"))
		deployment := train("True")
		add("/apis/apps/v1/namespaces/gpu/deployments/train", deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))
		set := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}}
		set.Name, set.Namespace, set.CreationTimestamp = "train-"+benchHash(p), "gpu", at(-time.Hour)
		addJSON("/apis/apps/v1/namespaces/gpu/replicasets/"+set.Name, set)
	}
	server := httptest.NewServer(a)
	b.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Path
	if strings.HasPrefix(key, oldNode) {
		key = oldNode
	}
	if selector := r.URL.Query().Get("fieldSelector") + r.URL.Query().Get("labelSelector"); selector != "" {
		key += "?" + selector
	}
	found, ok := a.answers[key]
	if !ok {
		found.kind = kruntime.ContentTypeJSON
		found.body, _ = json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404,
		})
	}
	w.Header().Set("Content-Type", found.kind)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	n, _ := w.Write(found.body)
	a.sent.Add(int64(n))
}

func (a *api) client(b *testing.B) client.Reader {
	b.Helper()
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	kinds.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	kinds.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	kinds.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	kinds.Add(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}, meta.RESTScopeRoot)
	c, err := client.New(&rest.Config{Host: a.url, QPS: -1}, client.Options{Scheme: newScheme(), Mapper: kinds})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func benchHash(workload int) string { return fmt.Sprintf("%05d", workload) }

// benchPod returns a pod of about 7 KB, of one of 30 Deployments.
func benchPod(workload int, node string, options ...podOption) *corev1.Pod {
	pod := newPod(fmt.Sprintf("train-%s-%s", benchHash(workload), node), node, append([]podOption{template(benchHash(workload))}, options...)...)
	for i := range 20 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: strings.Repeat("v", 80)})
	}
	fields := metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:padding":"` + strings.Repeat("x", 2000) + `"}}}`)
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: fields}, {Manager: "kube-controller-manager", FieldsV1: fields}}
	return pod
}

// benchNode returns a Node of about 15 KB, most of it the names of images.
func benchNode(name string) *corev1.Node {
	n := gpu(aNode(name, ""))
	if strings.HasPrefix(name, "new") {
		n = gpu(aNode(name, name))
	}
	for i := range 50 {
		image := fmt.Sprintf("registry.example.com/team/%s-%d", strings.Repeat("n", 60), i)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image + "@sha256:" + strings.Repeat("0", 64), image + ":v1"}})
	}
	return n
}
