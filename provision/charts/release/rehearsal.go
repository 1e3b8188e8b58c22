package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// rehearsal checks what a chart rendered to before Helm writes any of it. It
// is a postrender.PostRenderer: Helm calls it once the manifest is whole, and
// an error ends the step without a trace in the cluster. It changes nothing.
type rehearsal struct {
	kube *kube.Client
	task task
	// before are the CRDs of the release so far, and its objects of Karpenter's kinds.
	before []string
	// refusal is the outcome.
	refusal error
}

// Run returns the manifest as it is, or says why it must not be written.
func (r *rehearsal) Run(manifest *bytes.Buffer) (*bytes.Buffer, error) {
	r.refusal = r.check(manifest.Bytes())
	return manifest, r.refusal
}

func (r *rehearsal) check(manifest []byte) error {
	resources, err := r.kube.Build(bytes.NewReader(manifest), false)
	if meta.IsNoMatchError(err) {
		return &RejectedError{Rejections: []string{err.Error()}}
	}
	if err != nil && !isRequest(err) {
		// It has the object's words, which are a template's.
		return &charts.RenderError{Chart: r.task.Name, Version: r.task.Version, Err: errors.New("it renders to something that is not a Kubernetes object")}
	}
	if err != nil {
		return fmt.Errorf("read what the chart renders to: %w", err)
	}
	if err := r.task.permitted(resources); err != nil {
		return err
	}
	if err := r.protect(resources); err != nil {
		return err
	}
	if err := r.owned(resources); err != nil {
		return err
	}
	return r.dryRun(resources)
}

// isRequest says that an error is of a request to the API server, and not of what the
// chart renders to.
func isRequest(err error) bool {
	var sent *url.Error
	var status apierrors.APIStatus
	return errors.As(err, &sent) || errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded)
}

// protect checks that no CRD leaves the chart, nor a NodePool that another tool has put
// into it, and that each CRD is marked to outlive the release: deleting one deletes its
// nodes.
func (r *rehearsal) protect(resources kube.ResourceList) error {
	var names, unprotected []string
	for _, info := range resources {
		kind := info.Mapping.GroupVersionKind
		if name, ok := carriesNodes(kind.Group, kind.Kind, info.Name); ok {
			names = append(names, name)
		}
		if kind.Kind != crdKind {
			continue
		}
		annotations, err := meta.NewAccessor().Annotations(info.Object)
		if err != nil {
			return fmt.Errorf("read the annotations of crd %s: %w", info.Name, err)
		}
		if annotations[kube.ResourcePolicyAnno] != kube.KeepPolicy {
			unprotected = append(unprotected, info.Name)
		}
	}
	if len(unprotected) > 0 {
		return &UnprotectedCRDsError{Names: unprotected}
	}
	dropped := slices.DeleteFunc(slices.Clone(r.before), func(name string) bool { return slices.Contains(names, name) })
	if len(dropped) > 0 {
		slices.Sort(dropped)
		return &DroppedCRDsError{Names: slices.Compact(dropped)}
	}
	return nil
}

// owned checks that what exists already is this release's, or may be adopted, and is
// not being deleted.
func (r *rehearsal) owned(resources kube.ResourceList) error {
	var existing []survey.Object
	var terminating []string
	for _, info := range resources {
		live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", describe(info), err)
		}
		accessor, err := meta.Accessor(live)
		if err != nil {
			return fmt.Errorf("read %s: %w", describe(info), err)
		}
		existing = append(existing, survey.ObjectOf(info.Mapping.GroupVersionKind.Kind, accessor))
		if accessor.GetDeletionTimestamp() != nil {
			terminating = append(terminating, describe(info))
		}
	}
	if err := survey.CheckWrite(existing, r.task.Name, r.task.namespace, r.task.adopt); err != nil {
		return err
	}
	if len(terminating) > 0 {
		return &TerminatingError{Objects: terminating}
	}
	return nil
}

// dryRun has the API server check each object, for its fields and for the
// rights that it hands out. Of an object that exists the server says so only
// once it has found nothing else to say.
func (r *rehearsal) dryRun(resources kube.ResourceList) error {
	var rejections, forbidden []string
	for _, info := range resources {
		helper := resource.NewHelper(info.Client, info.Mapping).DryRun(true).WithFieldValidation("Strict")
		_, err := helper.Create(info.Namespace, true, info.Object.DeepCopyObject())
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return &TerminatingError{Objects: []string{"Namespace " + info.Namespace}}
		case apierrors.IsForbidden(err):
			forbidden = append(forbidden, describe(info)+": "+oneLine(err))
		case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err):
			rejections = append(rejections, describe(info)+": "+r.task.rejection(err))
		default:
			return fmt.Errorf("rehearse %s: %w", describe(info), err)
		}
	}
	if len(forbidden) > 0 {
		return &ForbiddenError{Refusals: forbidden}
	}
	if len(rejections) > 0 {
		return &RejectedError{Rejections: rejections}
	}
	return nil
}

// oneLine is the server's answer for a condition: of a missing right it lists
// each rule on a line of its own.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func describe(info *resource.Info) string {
	kind := info.Mapping.GroupVersionKind.Kind
	if info.Namespaced() {
		return fmt.Sprintf("%s %s/%s", kind, info.Namespace, info.Name)
	}
	return kind + " " + info.Name
}
