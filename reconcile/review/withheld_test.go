package review_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// registry is a chart registry that requires a password.
type registry struct{ charts *charts.Charts }

func (r registry) Resolve(ctx context.Context, _ charts.Ref, access charts.Access) (*charts.Charts, error) {
	if _, err := access.Keys(ctx, "public.ecr.aws"); err != nil {
		return nil, err
	}
	return r.charts, nil
}

func (registry) Verify(context.Context, charts.Ref, *charts.Charts, charts.Access, charts.Signers) error {
	return nil
}

// TestWithheldSecretsAreNotAskedFor: for a commit of an untrusted author no Secret is read, whatever the NodeSync and
// the commit name. For the same commit of another author, each is read.
func TestWithheldSecretsAreNotAskedFor(t *testing.T) {
	from := "valuesFrom: [{kind: Secret, name: values}]\n"
	for name, c := range map[string]struct {
		edit func(*v1alpha1.NodeSync)
		yaml string
		// reads are the Secrets read for another author, and says is the message for this one.
		reads, says string
	}{
		"of a registry": {
			edit: func(s *v1alpha1.NodeSync) {
				s.Spec.Charts = &v1alpha1.ChartAccess{Registries: []v1alpha1.Registry{{Host: "public.ecr.aws", SecretRef: &v1alpha1.LocalReference{Name: "mirror"}}}}
			},
			reads: "get mirror", says: "secret mirror is not read for a pull request from a fork",
		},
		"of a registry's authority": {
			edit: func(s *v1alpha1.NodeSync) {
				s.Spec.Charts = &v1alpha1.ChartAccess{Registries: []v1alpha1.Registry{{Host: "public.ecr.aws", CertSecretRef: &v1alpha1.LocalReference{Name: "authority"}}}}
			},
			reads: "get authority", says: "secret authority is not read for a pull request from a fork",
		},
		"of signers": {
			edit: func(s *v1alpha1.NodeSync) {
				s.Spec.Charts = &v1alpha1.ChartAccess{Verify: &v1alpha1.ChartVerification{SecretRef: v1alpha1.LocalReference{Name: "signers"}}}
			},
			reads: "get signers", says: "secret signers is not read for a pull request from a fork",
		},
		"of values": {yaml: from, reads: "list", says: "what valuesFrom names is not read for a pull request from a fork"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, withheld := range []bool{true, false} {
				reads, said := withSecrets(t, withheld, c.yaml, func(s *v1alpha1.NodeSync) {
					s.Status.Karpenter = &v1alpha1.KarpenterStatus{Version: "1.8.6", Namespace: "kube-system"}
					if c.edit != nil {
						c.edit(s)
					}
				})
				switch {
				case withheld && !strings.Contains(said, "unknown: 1.8.6 to 1.14.1"):
					t.Errorf("it does not say that the version changes: %q", said)
				case withheld && len(reads) > 0:
					t.Errorf("read of Secrets: %q", reads)
				case withheld && !strings.Contains(said, c.says):
					t.Errorf("it says %q, want %q", said, c.says)
				case !withheld && !slices.Contains(reads, c.reads):
					t.Errorf("of a trusted author: read %q, want %q; it says %q", reads, c.reads, said)
				}
			}
		})
	}
}

// withSecrets returns which Secrets a preview has read, and its message.
func withSecrets(t *testing.T, withheld bool, yaml string, edit func(*v1alpha1.NodeSync)) (reads []string, said string) {
	t.Helper()
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prod", UID: "11", Generation: 1}}
	edit(sync)
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), cluster.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects := append(installtest.Installed()[:1], sync.DeepCopy())
	for _, crd := range applytest.CRDs() {
		objects = append(objects, installtest.Serve(crd.DeepCopy()))
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if isSecret(c, object) {
				reads = append(reads, "get "+key.Name)
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if isSecret(c, list) {
				reads = append(reads, "list")
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
	step := &review.Step{
		Tools: review.Tools{
			Client: c, Helm: &installtest.Helm{}, Schemas: &schema.Cache{},
			CRDs:  func(string) ([]*apiextensionsv1.CustomResourceDefinition, error) { return applytest.CRDs(), nil },
			Store: registry{installtest.ChartFolder(t, "1.14.1", applytest.CRDs()[0].DeepCopy())},
		},
		Sync: sync, Now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), Withheld: withheld,
		Snapshot: &render.Snapshot{Revision: "main@sha1:a", Commit: "a", FS: fstest.MapFS{
			"plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: eu, region: eu-west-1}\nversion: 1.14.1\nnodes: [./nodes]\n" + yaml)},
			"nodes/class.yaml": {Data: []byte("apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  role: nodes\n" +
				"  amiSelectorTerms: [{alias: al2023@v20251002}]\n  subnetSelectorTerms: [{id: subnet-1234}]\n  securityGroupSelectorTerms: [{id: sg-1234}]\n")},
		}},
		HideValues: func([]string) {}, HideCredential: func(string) {},
	}
	made, err := step.Make(t.Context())
	if err != nil {
		return reads, err.Error()
	}
	said = strings.Join(made.Warnings, "\n")
	if made.ChartsUnknown {
		said += "\nunknown: " + made.VersionChanges
	}
	for _, stopped := range []error{made.Stopped, made.ChartsRefused} {
		if stopped != nil {
			said += "\n" + stopped.Error()
		}
	}
	return reads, said
}

// isSecret reports whether an object is a Secret or a list of Secrets.
func isSecret(c client.Client, object runtime.Object) bool {
	gvk, err := c.GroupVersionKindFor(object)
	return err == nil && (gvk.Kind == "Secret" || gvk.Kind == "SecretList")
}
