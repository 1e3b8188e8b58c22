package main

import (
	"context"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// volumeID is the ID of an EBS volume, in whatever names one: vol-1 for the EBS CSI driver, aws://eu-west-1a/vol-1 in
// tree, and for other drivers what they like.
var volumeID = regexp.MustCompile(`vol-[0-9a-z]+`)

// volumes are what the cluster has of EBS volumes, by their ID: PersistentVolumes of any driver, and pods that name one
// themselves.
func (c *cluster) volumes(ctx context.Context) (map[string]leftover.Volume, error) {
	list := &corev1.PersistentVolumeList{}
	if err := c.List(ctx, list); err != nil {
		return nil, explain(err, "list PersistentVolumes")
	}
	all := map[string]leftover.Volume{}
	for i := range list.Items {
		pv := &list.Items[i]
		volume := leftover.Volume{Name: pv.Name, Retained: pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain}
		if claim := pv.Spec.ClaimRef; claim != nil {
			volume.Claim = claim.Namespace + "/" + claim.Name
		}
		for _, id := range volumesOf(&pv.Spec) {
			if known := all[id]; !known.Retained {
				all[id] = volume
			}
		}
	}
	return all, c.inlineVolumes(ctx, all)
}

// volumesOf are the IDs that a PersistentVolume names.
func volumesOf(spec *corev1.PersistentVolumeSpec) []string {
	var names []string
	if spec.CSI != nil {
		names = append(slices.Sorted(maps.Values(spec.CSI.VolumeAttributes)), spec.CSI.VolumeHandle)
	}
	if spec.AWSElasticBlockStore != nil {
		names = append(names, spec.AWSElasticBlockStore.VolumeID)
	}
	var ids []string
	for _, name := range names {
		ids = append(ids, volumeID.FindAllString(name, -1)...)
	}
	return ids
}

// podsAtOnce is how many pods one answer has.
const podsAtOnce = 500

// inlineVolumes adds those that pods name themselves, without a PersistentVolume.
func (c *cluster) inlineVolumes(ctx context.Context, all map[string]leftover.Volume) error {
	for from := ""; ; {
		list := &corev1.PodList{}
		if err := c.List(ctx, list, client.Limit(podsAtOnce), client.Continue(from)); err != nil {
			return explain(err, "list pods, which may name EBS volumes")
		}
		for i := range list.Items {
			pod := &list.Items[i]
			for _, v := range pod.Spec.Volumes {
				if v.AWSElasticBlockStore == nil {
					continue
				}
				for _, id := range volumeID.FindAllString(v.AWSElasticBlockStore.VolumeID, -1) {
					if _, known := all[id]; !known {
						all[id] = leftover.Volume{Pod: pod.Namespace + "/" + pod.Name}
					}
				}
			}
		}
		if from = list.Continue; from == "" {
			return nil
		}
	}
}
