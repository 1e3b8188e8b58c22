package evaluate

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// TestChartsInForce shows that a tag refers to the same chart until a commit sets another version or repository.
func TestChartsInForce(t *testing.T) {
	const repository, mirror = "oci://public.ecr.aws/karpenter", "oci://mirror.example.com/karpenter"
	resolved := func(from, crd, main string) *v1alpha1.ResolvedCharts {
		return &v1alpha1.ResolvedCharts{Repository: from, CRDDigest: crd, Digest: main}
	}
	installed := v1alpha1.KarpenterStatus{Version: "1.14.1", Charts: resolved(repository, "c1", "m1")}
	changing := installed
	changing.Target = &v1alpha1.ChartTarget{Version: "1.15.0", Step: v1alpha1.ChartRolledBack, Charts: resolved(repository, "c2", "m2")}
	moving := installed
	moving.Target = &v1alpha1.ChartTarget{Version: "1.14.1", Step: v1alpha1.ChartChecking, Charts: resolved(mirror, "c3", "m3")}
	before := v1alpha1.KarpenterStatus{
		Version: "1.14.1",
		CRDs:    &v1alpha1.ReleaseStatus{Version: "1.15.0", Digest: "c2"}, Controller: &v1alpha1.ReleaseStatus{Version: "1.14.1", Digest: "m1"},
	}
	for name, c := range map[string]struct {
		status              *v1alpha1.KarpenterStatus
		repository, version string
		want                charts.Digests
	}{
		"nothing is installed":              {nil, repository, "1.14.1", charts.Digests{}},
		"the same":                          {&installed, repository, "1.14.1", charts.Digests{CRD: "c1", Controller: "m1"}},
		"another version":                   {&installed, repository, "1.15.0", charts.Digests{}},
		"another repository":                {&installed, mirror, "1.14.1", charts.Digests{}},
		"a change that has begun":           {&changing, repository, "1.15.0", charts.Digests{CRD: "c2", Controller: "m2"}},
		"back from a change that has begun": {&changing, repository, "1.14.1", charts.Digests{CRD: "c1", Controller: "m1"}},
		"a change of the repository":        {&moving, mirror, "1.14.1", charts.Digests{CRD: "c3", Controller: "m3"}},
		"back from another repository":      {&moving, repository, "1.14.1", charts.Digests{CRD: "c1", Controller: "m1"}},
		"a status without them":             {&before, repository, "1.14.1", charts.Digests{Controller: "m1"}},
		"a status without them, newer CRDs": {&before, repository, "1.15.0", charts.Digests{CRD: "c2"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inForce(c.status, c.repository, c.version); got != c.want {
				t.Errorf("inForce() = %+v, want %+v", got, c.want)
			}
		})
	}
}

func secretOf(name string, data map[string][]byte) *corev1.Secret {
	hosts := map[string]string{v1alpha1.HostsAnnotation: "plain.example.com,both.example.com:5000,unfit.example.com"}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: desiredNamespace, Name: name, Annotations: hosts}, Data: data}
}

func TestHostsAreOpenedByTheNodeSync(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	b := newBed(t, desiredNodeSync(func(n *v1alpha1.NodeSync) {
		n.Spec.Charts = &v1alpha1.ChartAccess{Registries: []v1alpha1.Registry{
			{Host: "plain.example.com", SecretRef: &v1alpha1.LocalReference{Name: "token"}},
			{Host: "both.example.com:5000", SecretRef: &v1alpha1.LocalReference{Name: "docker"}, CertSecretRef: &v1alpha1.LocalReference{Name: "ca"}},
			{Host: "gone.example.com", SecretRef: &v1alpha1.LocalReference{Name: "gone"}},
			{Host: "unfit.example.com", SecretRef: &v1alpha1.LocalReference{Name: "docker"}},
			{Host: "no-ca.example.com", CertSecretRef: &v1alpha1.LocalReference{Name: "token"}},
		}}
	}), secretOf("docker", map[string][]byte{".dockerconfigjson": []byte(`{"auths": {"both.example.com:5000": {"username": "ada", "password": "s3cret"}}}`)}),
		secretOf("ca", map[string][]byte{"ca.crt": authority}))
	uncached := b.uncached
	for host, want := range map[string]struct {
		found charts.Credentials
		reads int
		says  string
	}{
		"plain.example.com":      {found: charts.Credentials{Username: "git", Password: "s3cret", Origin: "secret token"}, reads: 1},
		"Plain.example.com":      {found: charts.Credentials{Username: "git", Password: "s3cret", Origin: "secret token"}, reads: 1},
		"plain.example.com:443":  {},
		"both.example.com:5000":  {found: charts.Credentials{Username: "ada", Password: "s3cret", Origin: "secret docker", CA: authority}, reads: 2},
		"both.example.com":       {},
		"evil.plain.example.com": {},
		"gone.example.com":       {reads: 1, says: "read secret gone, which spec.charts.registries names for gone.example.com"},
		"unfit.example.com":      {reads: 1, says: "has no user and password for unfit.example.com"},
		"no-ca.example.com":      {reads: 1, says: "ca.crt holds no certificate"},
	} {
		uncached.reads = 0
		got, err := b.step().openHost(t.Context(), host)
		if want.says == "" {
			if diff := cmp.Diff(want.found, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", host, err, diff)
			}
		} else if err == nil || !strings.Contains(err.Error(), want.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want an error that says %q", host, err, want.says)
		} else if f := fault.Classify(err); f.Class != fault.Terminal || f.Reason != v1alpha1.ReasonChartFailed {
			t.Errorf("%s: %s %s", host, f.Class, f.Reason)
		}
		if uncached.reads != want.reads {
			t.Errorf("%s: %d Secrets were read, want %d", host, uncached.reads, want.reads)
		}
	}

	// A NodeSync cannot send a Secret to a host that the Secret does not name.
	s := b.step()
	s.Sync.Spec.Charts.Registries = append(s.Sync.Spec.Charts.Registries, v1alpha1.Registry{Host: "evil.example.com", SecretRef: &v1alpha1.LocalReference{Name: "token"}})
	_, err := s.openHost(t.Context(), "evil.example.com")
	if f := fault.Classify(err); f == nil || f.Class != fault.Terminal || f.Reason != v1alpha1.ReasonSecretRefused {
		t.Errorf("a host that the secret does not name: %v", err)
	}

	// A changed Secret is used for the next request.
	renewed := secretOf("token", nil)
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(renewed), renewed); err != nil {
		t.Fatal(err)
	}
	renewed.Data["password"] = []byte("renewed")
	if err := b.client.Update(t.Context(), renewed); err != nil {
		t.Fatal(err)
	}
	if got, err := b.step().openHost(t.Context(), "plain.example.com"); err != nil || got.Password != "renewed" {
		t.Errorf("a renewed Secret: %v, %v", got, err)
	}
}

// TestWhatIsExcludedIsNotBroughtBack shows that neither a rollback nor a repair installs a version, or charts, that the
// NodeSync excludes.
func TestWhatIsExcludedIsNotBroughtBack(t *testing.T) {
	half := strings.Repeat("a", 32)
	whole := "sha256:" + half + strings.Repeat("b", 32)
	for name, c := range map[string]struct {
		allow   v1alpha1.ChartAllow
		chart   string
		digest  string
		refused string
	}{
		"no limits":                    {v1alpha1.ChartAllow{}, charts.ControllerChart, "sha256:" + half, ""},
		"a version that is allowed":    {v1alpha1.ChartAllow{Versions: ">=1.14"}, charts.ControllerChart, "sha256:" + half, ""},
		"a version that is excluded":   {v1alpha1.ChartAllow{Versions: ">=1.14.2"}, charts.ControllerChart, "sha256:" + half, "version 1.14.1 is not in the range >=1.14.2"},
		"CRDs of that version":         {v1alpha1.ChartAllow{Versions: ">=1.14.2", Digests: []string{"sha256:cc"}}, charts.CRDChart, "sha256:" + half, ""},
		"a digest that is allowed":     {v1alpha1.ChartAllow{Digests: []string{"sha256:cc", whole}}, charts.ControllerChart, "sha256:" + half, ""},
		"the whole of it":              {v1alpha1.ChartAllow{Digests: []string{whole}}, charts.ControllerChart, whole, ""},
		"a digest that is not allowed": {v1alpha1.ChartAllow{Digests: []string{"sha256:cc"}}, charts.ControllerChart, "sha256:" + half, "whose digest begins with sha256:" + half},
		"a digest that is not known":   {v1alpha1.ChartAllow{Digests: []string{whole}}, charts.ControllerChart, "", "whose digest is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, desiredNodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Charts = &v1alpha1.ChartAccess{Allow: &c.allow} }))
			err := b.step().Permit(release.Rendered{Chart: c.chart, Version: "1.14.1", Digest: c.digest, Namespace: "kube-system"})
			var refused *allowance.RefusedError
			if !errors.As(err, &refused) && c.refused != "" || c.refused != "" && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%v, want %q", err, c.refused)
			}
			// It has no objects, which is refused as well.
			if c.refused == "" && err != nil && (strings.Contains(err.Error(), "range") || strings.Contains(err.Error(), "digest")) {
				t.Error(err)
			}
		})
	}
}

// TestAVariableThatIsSetTwice shows that what Git's charts render to must not have a variable twice, whatever the
// NodeSync allows, and that a rollback to such a release is possible.
func TestAVariableThatIsSetTwice(t *testing.T) {
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "karpenter", "namespace": "kube-system"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "controller", "env": []any{
			map[string]any{"name": "LOG_LEVEL", "value": "info"}, map[string]any{"name": "LOG_LEVEL", "value": "debug"},
		}}}}}},
	}}
	for earlier, refused := range map[bool]bool{false: true, true: false} {
		allow := v1alpha1.ChartAllow{Values: []string{allowance.Everything}}
		b := newBed(t, desiredNodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Charts = &v1alpha1.ChartAccess{Allow: &allow} }))
		err := b.step().Permit(release.Rendered{
			Chart: charts.ControllerChart, Version: "1.14.1", Namespace: "kube-system", Earlier: earlier, Objects: []*unstructured.Unstructured{deployment},
		})
		// The rest of the Deployment is refused as well.
		if got := err != nil && strings.Contains(err.Error(), "has the variable LOG_LEVEL twice"); got != refused {
			t.Errorf("earlier %t: %v", earlier, err)
		}
	}
}
