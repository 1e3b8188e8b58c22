package ebs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// caches watch the objects that volumes depend on.
type caches struct {
	factory informers.SharedInformerFactory
	// changed contains a token if something has changed since it was last received.
	changed chan struct{}
}

func newCaches(ctx context.Context, client kubernetes.Interface) (*caches, error) {
	c := &caches{factory: informers.NewSharedInformerFactory(client, 0), changed: make(chan struct{}, 1)}
	for _, informer := range []cache.SharedIndexInformer{
		c.factory.Core().V1().Pods().Informer(),
		c.factory.Core().V1().Nodes().Informer(),
		c.factory.Core().V1().PersistentVolumeClaims().Informer(),
		c.factory.Core().V1().PersistentVolumes().Informer(),
		c.factory.Storage().V1().StorageClasses().Informer(),
		c.factory.Storage().V1().VolumeAttachments().Informer(),
		c.factory.Storage().V1().CSINodes().Informer(),
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { c.wake() },
			UpdateFunc: func(any, any) { c.wake() },
			DeleteFunc: func(any) { c.wake() },
		})
		if err != nil {
			return nil, fmt.Errorf("follow the cluster: %w", err)
		}
	}
	c.factory.Start(ctx.Done())
	for kind, synced := range c.factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("list %s: %w", kind, ctx.Err())
		}
	}
	return c, nil
}

func (c *caches) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *caches) wait() { c.factory.Shutdown() }

// view returns the cluster as in the caches. Its objects are shared and must not be modified.
func (c *caches) view() *view {
	everything := labels.Everything()
	v := &view{
		nodes:    map[string]*corev1.Node{},
		claims:   map[claimKey]*corev1.PersistentVolumeClaim{},
		volumes:  map[string]*corev1.PersistentVolume{},
		classes:  map[string]*storagev1.StorageClass{},
		csiNodes: map[string]*storagev1.CSINode{},
	}
	// Listing from a cache does not fail.
	v.pods, _ = c.factory.Core().V1().Pods().Lister().List(everything)
	v.attachments, _ = c.factory.Storage().V1().VolumeAttachments().Lister().List(everything)
	nodes, _ := c.factory.Core().V1().Nodes().Lister().List(everything)
	for _, node := range nodes {
		v.nodes[node.Name] = node
	}
	claims, _ := c.factory.Core().V1().PersistentVolumeClaims().Lister().List(everything)
	for _, claim := range claims {
		v.claims[claimKey{claim.Namespace, claim.Name}] = claim
	}
	volumes, _ := c.factory.Core().V1().PersistentVolumes().Lister().List(everything)
	for _, volume := range volumes {
		v.volumes[volume.Name] = volume
	}
	classes, _ := c.factory.Storage().V1().StorageClasses().Lister().List(everything)
	for _, class := range classes {
		v.classes[class.Name] = class
	}
	csiNodes, _ := c.factory.Storage().V1().CSINodes().Lister().List(everything)
	for _, csiNode := range csiNodes {
		v.csiNodes[csiNode.Name] = csiNode
	}
	return v
}
