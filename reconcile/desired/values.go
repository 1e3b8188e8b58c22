package desired

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// MergeValues puts the values of the main chart together: those of objects in the
// cluster, of files, and of plumbline.yaml itself, the later over the earlier.
func (s *Step) MergeValues(ctx context.Context) error {
	layers, err := s.objectValues(ctx)
	if err != nil {
		return err
	}
	if s.Values, err = charts.Merge(append(layers, inGit(s.Karpenter, s.FileValues)...)...); err != nil {
		return err
	}
	s.HideValues(s.unsaid(s.Values.Secrets))
	return nil
}

// MergeInGit puts those values together that are in Git: of files, as they were read, and of
// plumbline.yaml itself.
func MergeInGit(k *render.Karpenter, files []map[string]any) (charts.Values, error) {
	return charts.Merge(inGit(k, files)...)
}

func inGit(k *render.Karpenter, files []map[string]any) []charts.Layer {
	var layers []charts.Layer
	for i, values := range files {
		layers = append(layers, charts.Layer{Origin: k.ValuesFiles[i], Values: values})
	}
	return append(layers, charts.Layer{Origin: render.FileName, Values: k.Values})
}

// unsaid leaves out what plumbline.yaml says as well: no message could do without.
func (s *Step) unsaid(secrets []string) []string {
	k := s.Karpenter
	said := []string{k.Cluster.Name, k.Cluster.Region, k.Cluster.InterruptionQueue, k.Cluster.ControllerRole, k.Version, k.Namespace, k.Repository}
	return slices.DeleteFunc(slices.Clone(secrets), func(secret string) bool { return slices.Contains(said, secret) })
}

// objectValues reads what valuesFrom names. Only objects with the label are looked
// at, so that a commit cannot have any Secret of the namespace read.
func (s *Step) objectValues(ctx context.Context) ([]charts.Layer, error) {
	if len(s.Karpenter.ValuesFrom) == 0 {
		return nil, nil
	}
	reader, listed, err := s.Labelled(ctx)
	if err != nil {
		return nil, err
	}
	found, err := labelled(ctx, reader, s.Sync.Namespace, s.Sync.Name)
	if err != nil {
		return nil, err
	}
	if soon := listed(); soon > 0 {
		s.WakeBy(s.Now.Add(soon))
	}
	var layers []charts.Layer
	for _, from := range s.Karpenter.ValuesFrom {
		layer := charts.Layer{Origin: from.String(), TargetPath: from.TargetPath}
		object, there := found[from.Kind+"/"+from.Name]
		if object.refused != nil {
			return nil, fmt.Errorf("values of %s: %w", from, object.refused)
		}
		text, has := object.data[from.ValuesKey]
		switch {
		case has && from.Kind == render.FromSecret:
			layer.Sealed = object.version
		case has:
		case from.Optional:
			continue
		default:
			return nil, s.missingValues(ctx, from, there)
		}
		layer.Text = text
		layers = append(layers, layer)
	}
	return layers, nil
}

// holder is a ConfigMap or Secret that holds values.
type holder struct {
	// version is another one after each change.
	version string
	data    map[string]string
	// refused is why a NodeSync may not use it.
	refused error
}

// labelled reads the objects that values of a NodeSync may come from, by kind and name.
func labelled(ctx context.Context, reader client.Reader, namespace, nodeSync string) (map[string]holder, error) {
	among := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels(observe.ValuesLabels()), client.UnsafeDisableDeepCopy}
	found := map[string]holder{}
	secrets := &corev1.SecretList{}
	if err := reader.List(ctx, secrets, among...); err != nil {
		return nil, fmt.Errorf("read the Secrets with label %s: %w", v1alpha1.ValuesLabel, err)
	}
	for i := range secrets.Items {
		secret, data := &secrets.Items[i], map[string]string{}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
		found[render.FromSecret+"/"+secret.Name] = holder{
			version: string(secret.UID) + "/" + secret.ResourceVersion, data: data, refused: grant.CheckNodeSync(secret, nodeSync),
		}
	}
	configs := &corev1.ConfigMapList{}
	if err := reader.List(ctx, configs, among...); err != nil {
		return nil, fmt.Errorf("read the ConfigMaps with label %s: %w", v1alpha1.ValuesLabel, err)
	}
	for i := range configs.Items {
		config := &configs.Items[i]
		found[render.FromConfigMap+"/"+config.Name] = holder{data: config.Data}
	}
	return found, nil
}

// missingValues says what to do for an object that values should come from. Of one
// without the label nothing but that it exists is looked at.
func (s *Step) missingValues(ctx context.Context, from render.ValuesFrom, there bool) error {
	message := fmt.Sprintf("it does not exist in namespace %s: create it with label %s=true", s.Sync.Namespace, v1alpha1.ValuesLabel)
	if there {
		message = "it has no such key"
	} else {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(from.Kind))
		err := s.Uncached.Get(ctx, client.ObjectKey{Namespace: s.Sync.Namespace, Name: from.Name}, object)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("look for %s: %w", from, err)
		}
		if err == nil {
			message = fmt.Sprintf("it has not the label that lets a commit use it: kubectl label %s %s -n %s %s=true", from.Kind, from.Name, s.Sync.Namespace, v1alpha1.ValuesLabel)
		}
	}
	return fault.Waits(fmt.Errorf("values of %s: %s", from, message))
}
