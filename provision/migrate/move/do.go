package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/migrate"
)

// StalledError means that what a step waits for stays the same.
type StalledError struct {
	Target, Waits string
	After         time.Duration
}

func (e *StalledError) Error() string {
	return fmt.Sprintf("%s has waited for %s without a change, for %s; run the same command again to continue, or with --back to reverse",
		e.Target, e.After, e.Waits)
}

// Do performs one step. It returns when the step is done, ctx is done, or what it waits for has stayed the same for the
// timeout (*StalledError). A step that was interrupted can be performed again.
func (m *Mover) Do(ctx context.Context, s *migrate.Step) error {
	switch s.Action {
	case migrate.Test:
		return m.Test(ctx)
	case migrate.PinAddon, migrate.UnpinAddon:
		return m.changeAddon(ctx, s)
	case migrate.PinWorkload, migrate.UnpinWorkload:
		return m.changeAffinity(ctx, s)
	case migrate.StopAutoscaler, migrate.StartAutoscaler:
		return m.scale(ctx, s)
	case migrate.RecordSizes, migrate.Forget:
		return m.tag(ctx, s)
	case migrate.Cordon, migrate.Uncordon:
		for _, name := range s.Nodes {
			if err := m.cordon(ctx, name, s.Action == migrate.Cordon); err != nil {
				return err
			}
		}
		return nil
	case migrate.Await:
		return m.await(ctx, s)
	case migrate.LowerMinimum:
		return m.resize(ctx, s)
	case migrate.RestoreSizes:
		return m.restore(ctx, s)
	case migrate.MoveNode:
		return m.moveNode(ctx, s)
	}
	return fmt.Errorf("plumbline does not know the step %s", s.Action)
}

// await waits until each instance of a group is a Node, or is terminated.
func (m *Mover) await(ctx context.Context, s *migrate.Step) error {
	return m.until(ctx, s.Target, func(ctx context.Context) (string, error) {
		facts, err := m.Read(ctx)
		if err != nil {
			return "", err
		}
		for _, g := range facts.Groups(facts.Autoscalers()) {
			if more := len(g.Instances) - len(g.Nodes); g.ID() == s.Group.ID() && more > 0 {
				return fmt.Sprintf("%d of its instances to join the cluster, or to be terminated", more), nil
			}
		}
		return "", nil
	})
}

// patch patches an object with a JSON merge patch.
func (m *Mover) patch(ctx context.Context, object client.Object, fields map[string]any, doing string) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if err := m.Cluster.Patch(ctx, object, client.RawPatch(types.MergePatchType, text)); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// cordon makes a node unschedulable, with a mark, or schedulable again. A node that is gone is no error.
func (m *Mover) cordon(ctx context.Context, name string, on bool) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fields := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{migrate.CordonAnnotation: m.Now().UTC().Format(time.RFC3339)}},
		"spec":     map[string]any{"unschedulable": true},
	}
	verb := "cordon"
	if !on {
		verb = "uncordon"
		fields = map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{migrate.CordonAnnotation: nil, migrate.MovedAnnotation: nil}},
			"spec":     map[string]any{"unschedulable": nil},
		}
	}
	err := m.patch(ctx, node, fields, verb+" Node/"+name)
	return client.IgnoreNotFound(err)
}

// objectOf returns an empty object of a workload, and its pod template in it.
func objectOf(ref migrate.Ref) (client.Object, func() (*corev1.PodTemplateSpec, bool)) {
	meta := metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}
	if ref.Kind == "StatefulSet" {
		s := &appsv1.StatefulSet{ObjectMeta: meta}
		return s, func() (*corev1.PodTemplateSpec, bool) {
			return &s.Spec.Template, s.Status.ObservedGeneration >= s.Generation && s.Status.UpdateRevision == s.Status.CurrentRevision
		}
	}
	d := &appsv1.Deployment{ObjectMeta: meta}
	return d, func() (*corev1.PodTemplateSpec, bool) {
		return &d.Spec.Template, d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas >= d.Status.Replicas &&
			d.Spec.Replicas != nil && d.Status.ReadyReplicas >= *d.Spec.Replicas
	}
}

// changeAffinity changes the affinity of a workload, with the mark in the same request, and waits for its rollout.
func (m *Mover) changeAffinity(ctx context.Context, s *migrate.Step) error {
	object, template := objectOf(s.Ref)
	if err := m.Cluster.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return fmt.Errorf("read %s: %w", s.Ref.Words(), err)
	}
	var mark any
	if s.Action == migrate.PinWorkload {
		mark = s.Mode
	}
	// A merge patch replaces the list of terms, and removes nothing else: unset what is not wanted.
	affinity := map[string]any{"nodeAffinity": nil}
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil {
		affinity["nodeAffinity"] = map[string]any{
			"requiredDuringSchedulingIgnoredDuringExecution": s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}
	}
	spec := map[string]any{"affinity": affinity}
	if s.Affinity == nil {
		spec["affinity"] = nil
	}
	err := m.patch(ctx, object, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{migrate.PinAnnotation: mark}},
		"spec":     map[string]any{"template": map[string]any{"spec": spec}},
	}, "change the affinity of "+s.Ref.Words())
	if err != nil {
		return err
	}
	return m.until(ctx, s.Target, func(ctx context.Context) (string, error) {
		if err := m.Cluster.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", fmt.Errorf("read %s: %w", s.Ref.Words(), err)
		}
		if _, rolled := template(); !rolled {
			return "the rollout of " + s.Ref.Words(), nil
		}
		return "", nil
	})
}

// changeAddon changes the configuration values of an add-on, after its tag, and waits until its workload has them.
func (m *Mover) changeAddon(ctx context.Context, s *migrate.Step) error {
	pins := s.Action == migrate.PinAddon
	if pins && s.Mode != "" && s.Addon.Tags[migrate.PinAnnotation] == "" {
		if err := m.AWS.TagEKS(ctx, s.Addon.ARN, migrate.PinAnnotation, s.Mode); err != nil {
			return err
		}
	}
	if s.Values != s.Addon.Configuration {
		err := m.update(ctx, s.Target, "", s.Addon.Name, func(ctx context.Context) (string, error) {
			return m.AWS.UpdateAddon(ctx, m.Name, s.Addon.Name, s.Values)
		})
		if err != nil {
			return err
		}
	}
	if !pins {
		return m.AWS.TagEKS(ctx, s.Addon.ARN, migrate.PinAnnotation, "")
	}
	object, template := objectOf(s.Ref)
	return m.until(ctx, s.Target, func(ctx context.Context) (string, error) {
		if err := m.Cluster.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", fmt.Errorf("read %s: %w", s.Ref.Words(), err)
		}
		has, rolled := template()
		switch {
		case !migrate.IsPinned(has.Spec.Affinity):
			return s.Ref.Words() + " to have the affinity of the add-on's configuration values, which EKS does not write over a change " +
				"that another client made in the cluster", nil
		case !rolled:
			return "the rollout of " + s.Ref.Words(), nil
		}
		return "", nil
	})
}

// scale scales an autoscaler to zero and records its replicas, or scales it up and removes the record; in one request.
func (m *Mover) scale(ctx context.Context, s *migrate.Step) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Ref.Namespace, Name: s.Ref.Name}}
	if err := m.Cluster.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return fmt.Errorf("read %s: %w", s.Ref.Words(), err)
	}
	replicas, record := s.Replicas, any(nil)
	if s.Action == migrate.StopAutoscaler {
		replicas, record = 0, d.Annotations[migrate.ReplicasAnnotation]
		if has := d.Spec.Replicas; record == "" || has != nil && *has > 0 {
			now := int32(1)
			if has != nil {
				now = *has
			}
			record = fmt.Sprint(now)
		}
	}
	err := m.patch(ctx, d, map[string]any{
		"metadata": map[string]any{
			"resourceVersion": d.ResourceVersion, "annotations": map[string]any{migrate.ReplicasAnnotation: record},
		},
		"spec": map[string]any{"replicas": replicas},
	}, fmt.Sprintf("scale %s to %d", s.Ref.Words(), replicas))
	if err != nil {
		return err
	}
	return m.until(ctx, s.Target, func(ctx context.Context) (string, error) {
		if err := m.Cluster.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return "", fmt.Errorf("read %s: %w", s.Ref.Words(), err)
		}
		settled := int(d.Status.Replicas) == replicas || replicas > 0 && int(d.Status.ReadyReplicas) >= replicas
		if d.Status.ObservedGeneration >= d.Generation && settled {
			return "", nil
		}
		return fmt.Sprintf("its pods: %d of %d", d.Status.Replicas, replicas), nil
	})
}

// tag sets or removes the record of a group.
func (m *Mover) tag(ctx context.Context, s *migrate.Step) error {
	if s.Group.Kind == migrate.ManagedNodeGroup {
		return m.AWS.TagEKS(ctx, s.Group.ARN, migrate.SizesTag, s.Tag)
	}
	return m.AWS.TagGroup(ctx, s.Group.Name, migrate.SizesTag, s.Tag)
}

// resize changes the sizes of a group.
func (m *Mover) resize(ctx context.Context, s *migrate.Step) error {
	if s.Group.Kind != migrate.ManagedNodeGroup {
		return m.AWS.SetGroupSizes(ctx, s.Group.Name, s.Sizes)
	}
	return m.update(ctx, s.Target, s.Group.Name, "", func(ctx context.Context) (string, error) {
		return m.AWS.SetNodeGroupSizes(ctx, m.Name, s.Group.Name, s.Sizes)
	})
}

// restore gives a group its recorded sizes, and waits for its nodes.
func (m *Mover) restore(ctx context.Context, s *migrate.Step) error {
	if s.Group.Sizes != s.Sizes {
		if err := m.resize(ctx, s); err != nil {
			return err
		}
	}
	return m.until(ctx, s.Target, func(ctx context.Context) (string, error) {
		f, err := m.Read(ctx)
		if err != nil {
			return "", err
		}
		plan, err := migrate.Back(f)
		if err != nil {
			return "", err
		}
		for _, one := range plan.Steps {
			if one.Action == s.Action && one.Target == s.Target && one.State != migrate.Done {
				return fmt.Sprintf("its nodes to be Ready: %d of %d have joined", len(one.Group.Nodes), s.Sizes.Desired), nil
			}
		}
		return "", nil
	})
}

// update starts an update of EKS, and waits for it. While another one is in progress, EKS refuses it: then it waits and tries
// again.
func (m *Mover) update(ctx context.Context, target, nodeGroup, addon string, start func(ctx context.Context) (id string, err error)) error {
	id := ""
	err := m.until(ctx, target, func(ctx context.Context) (string, error) {
		var err error
		id, err = start(ctx)
		var refused *cloud.AnswerError
		if errors.As(err, &refused) && refused.Code == "ResourceInUseException" {
			return "another update of EKS, which is in progress", nil
		}
		return "", err
	})
	if err != nil {
		return err
	}
	return m.until(ctx, target, func(ctx context.Context) (string, error) {
		u, err := m.AWS.Update(ctx, m.Name, nodeGroup, addon, id)
		switch {
		case err != nil:
			return "", err
		case u.Status == "Successful":
			return "", nil
		case u.Status == "InProgress":
			return "the update of EKS", nil
		}
		return "", fmt.Errorf("%s: EKS reports that its update is %s: %s", target, u.Status, strings.Join(u.Errors, "; "))
	})
}

// until calls a function until it returns no words about what it waits for. It says new words. Errors: *StalledError, that of
// the function, and that of ctx.
func (m *Mover) until(ctx context.Context, target string, waits func(ctx context.Context) (string, error)) error {
	last, since := "", m.Now()
	return wait.PollUntilContextCancel(ctx, m.Poll, true, func(ctx context.Context) (bool, error) {
		words, err := waits(ctx)
		switch {
		case err != nil:
			return false, err
		case words == "":
			return true, nil
		case words != last:
			last, since = words, m.Now()
			m.Say(target + ": waiting for " + words)
		case m.Now().Sub(since) >= m.Timeout:
			return false, &StalledError{target, words, m.Timeout}
		}
		return false, nil
	})
}
