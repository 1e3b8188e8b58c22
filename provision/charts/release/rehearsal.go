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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// rehearsal checks a rendered chart before Helm writes any of it. It is a postrender.PostRenderer: Helm calls it once
// the manifest is complete, and an error stops the step without a trace in the cluster. It changes nothing.
type rehearsal struct {
	kube *kube.Client
	task task
	// before are the CRDs of the release so far, and its objects of Karpenter's kinds.
	before []string
	// refusal is the result.
	refusal error
}

// Run returns the manifest unchanged, or why it must not be written.
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
		// The error quotes the object, which comes from a template.
		return &charts.RenderError{
			Chart: r.task.Name, Version: r.task.Version, Err: errors.New("it renders to something that is not a Kubernetes object"),
		}
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

// isRequest reports whether an error is about a request to the API server, and not about the rendered chart.
func isRequest(err error) bool {
	var sent *url.Error
	var status apierrors.APIStatus
	return errors.As(err, &sent) || errors.As(err, &status) || errors.Is(err, context.DeadlineExceeded)
}

// protect checks that the new revision drops no CRD, nor a NodePool that another tool has added to the release, and
// that each CRD is marked to be kept when the release is uninstalled: deleting one deletes its nodes.
func (r *rehearsal) protect(resources kube.ResourceList) error {
	var names, unprotected []string
	for _, info := range resources {
		kind := info.Mapping.GroupVersionKind
		if name, ok := deletionDeletesNodes(kind.Group, kind.Kind, info.Name); ok {
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
	names = append(names, r.task.left...) // EKS has them since
	dropped := slices.DeleteFunc(slices.Clone(r.before), func(name string) bool { return slices.Contains(names, name) })
	if len(dropped) > 0 {
		slices.Sort(dropped)
		return &DroppedCRDsError{Names: slices.Compact(dropped)}
	}
	return nil
}

// owned checks that existing objects belong to this release, or may be adopted, and are not being deleted.
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

// dryRun lets the API server check each object, its fields and the permissions that it grants. For an existing object
// the server returns AlreadyExists only if it found nothing else.
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

// oneLine returns the server's message for a condition: for missing permissions the server lists each rule on its own
// line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func describe(info *resource.Info) string {
	kind := info.Mapping.GroupVersionKind.Kind
	if info.Namespaced() {
		return fmt.Sprintf("%s %s/%s", kind, info.Namespace, info.Name)
	}
	return kind + " " + info.Name
}

// ServerVersion returns the cluster's version of Kubernetes, such as v1.33.4-eks-99d6cc0; if the API server emulates an
// older one, that version.
func (i *Installer) ServerVersion(context.Context) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(i.config)
	if err != nil {
		return "", fmt.Errorf("create a discovery client: %w", err)
	}
	version, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	if version.EmulationMajor != "" && version.EmulationMinor != "" {
		return "v" + version.EmulationMajor + "." + version.EmulationMinor, nil
	}
	return version.GitVersion, nil
}

// Rehearse checks whether both charts could be installed before anything is written: a dry run of each object reveals
// missing permissions, invalid values and existing objects while nothing has changed. Errors: those of EnsureCRDs and
// EnsureController.
func (i *Installer) Rehearse(ctx context.Context, c *charts.Charts, request Request) error {
	crds, err := i.newTask(ctx, charts.CRDChart, c, request)
	if err != nil {
		return err
	}
	controller, err := i.newTask(ctx, charts.ControllerChart, c, request)
	if err != nil {
		return err
	}
	state, err := i.State(ctx, request.Namespace)
	if err != nil {
		return err
	}
	for _, t := range []task{crds, controller} {
		want, err := t.mark()
		if err != nil {
			return err
		}
		r, step, err := i.decide(t, state, want)
		if err != nil {
			return err
		}
		if step == Keep || step == Recover { // Helm cannot rehearse over an unfinished revision
			continue
		}
		t.dry = true
		if err := i.carryOut(ctx, t, step, r, want); err != nil {
			return fmt.Errorf("rehearse Helm release %s at version %s: %w", t.Name, t.Version, err)
		}
	}
	return nil
}

// rejection returns the server's message. If values come from Secrets, it returns only the fields that the server
// names: the message quotes values, and hiding the secret ones would reveal which values of a commit are equal to them.
func (t task) rejection(err error) string {
	if !t.sealed {
		return oneLine(err)
	}
	var fields []string
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Details != nil {
		for _, cause := range answer.Status().Details.Causes {
			fields = append(fields, fmt.Sprintf("%s (%s)", cause.Field, cause.Type))
		}
	}
	if len(fields) == 0 {
		fields = []string{fmt.Sprintf("it is not accepted (%s)", apierrors.ReasonForError(err))}
	}
	return strings.Join(slices.Compact(fields), ", ") + "; its words are not repeated, as values are out of Secrets"
}

// TerminatingError reports that objects of the chart are being deleted: a write to them would be lost.
type TerminatingError struct {
	Objects []string
}

// Error names the objects.
func (e *TerminatingError) Error() string {
	return fmt.Sprintf("%s: being deleted, recreated once gone", strings.Join(e.Objects, ", "))
}

// RejectedError reports that the API server would reject the chart rendered with these values. Nothing was written.
type RejectedError struct {
	Rejections []string
}

// Error contains the API server's message.
func (e *RejectedError) Error() string {
	return "the API server rejects what the chart renders to, and nothing was written; check values in plumbline.yaml: " +
		strings.Join(e.Rejections, "; ")
}

// ForbiddenError reports that plumbline lacks permissions that the chart needs. Nothing was written.
type ForbiddenError struct {
	Refusals []string
}

// Error contains the API server's message, which names the missing rule.
func (e *ForbiddenError) Error() string {
	return "plumbline may not install what the chart renders to, and nothing was written; add the missing rules to ClusterRole plumbline-charts: " +
		strings.Join(e.Refusals, "; ")
}

// DroppedCRDsError reports that a chart is missing CRDs, or objects of Karpenter's kinds, of the release that it would
// replace.
type DroppedCRDsError struct {
	Names []string
}

// Error names the missing objects.
func (e *DroppedCRDsError) Error() string {
	return fmt.Sprintf("the chart does not contain %s, which the release has: Helm would delete them, and with them every node that depends on them",
		strings.Join(e.Names, ", "))
}

// UnprotectedCRDsError reports that a chart does not allow keeping its CRDs when its release is uninstalled.
type UnprotectedCRDsError struct {
	Names []string
}

// Error names the CRDs.
func (e *UnprotectedCRDsError) Error() string {
	return fmt.Sprintf("the chart renders %s without %s: %s, because it does not honour additionalAnnotations: use a newer version",
		strings.Join(e.Names, ", "), kube.ResourcePolicyAnno, kube.KeepPolicy)
}

// Rendered is a rendered chart for a release.
type Rendered struct {
	// Chart is its name: charts.CRDChart or charts.ControllerChart.
	Chart, Version string
	// Digest of the chart, as sha256:<hex>. For an earlier revision only its first 32 digits are known, and none if
	// plumbline has not installed it.
	Digest string
	// Namespace of the release.
	Namespace string
	// Objects as Helm parses them from the manifest that it writes and stores.
	Objects []*unstructured.Unstructured
	// LeftToEKS are the CRDs that are not among them because EKS keeps them up to date.
	LeftToEKS []string
	// Earlier reports whether it is an earlier revision, which a rollback installs again.
	Earlier bool
}

// permitted calls Permit with the objects that Helm has parsed from a manifest. The original documents would not do:
// Helm may parse that text differently.
func (t task) permitted(resources kube.ResourceList) error {
	if t.permit == nil {
		return nil
	}
	objects := make([]*unstructured.Unstructured, 0, len(resources))
	for _, info := range resources {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return &charts.MalformedError{Chart: t.Name, Version: t.Version, Err: errors.New("it renders to something that is not an object")}
		}
		objects = append(objects, object)
	}
	return t.permit(t.rendered(objects))
}

// rendered returns the argument of Permit.
func (t task) rendered(objects []*unstructured.Unstructured) Rendered {
	return Rendered{
		Chart: t.Name, Version: t.Version, Digest: t.Digest, Namespace: t.namespace, Objects: objects, LeftToEKS: t.left, Earlier: t.earlier,
	}
}

// Permitted calls request.Permit with both charts as rendered for this cluster, without a dry run: it needs no other
// permission than to read the available APIs. Error: that of Permit, *charts.RenderError, *charts.MalformedError, or
// one of the API server's.
func (i *Installer) Permitted(ctx context.Context, c *charts.Charts, request Request) error {
	for _, name := range []string{charts.CRDChart, charts.ControllerChart} {
		t, err := i.newTask(ctx, name, c, request)
		if err != nil {
			return err
		}
		if err := i.permitted(ctx, t); err != nil {
			return fmt.Errorf("render chart %s at version %s: %w", t.Name, t.Version, err)
		}
	}
	return nil
}

func (i *Installer) permitted(ctx context.Context, t task) error {
	helm, err := newHelm(i.config, t.namespace, i.options.Logger)
	if err != nil {
		return err
	}
	loaded, err := t.Load()
	if err != nil {
		return err
	}
	_, objects, err := i.render(ctx, helm, t, loaded, Release{})
	if err != nil || t.permit == nil {
		return err
	}
	return t.permit(t.rendered(objects))
}
