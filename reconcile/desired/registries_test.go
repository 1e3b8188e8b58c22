package desired

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

func secretOf(name string, data map[string][]byte) *corev1.Secret {
	hosts := map[string]string{v1alpha1.HostsAnnotation: "plain.example.com,both.example.com:5000,unfit.example.com"}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: hosts}, Data: data}
}

func TestHostsAreOpenedByTheNodeSync(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
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

	// A Secret that was changed counts at the next question.
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
