package reconcile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

func cosignPub(t *testing.T) []byte {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: raw})
}

// Charts without signatures are not used, wherever they come from; signed ones are verified once.
func TestSignaturesOfCharts(t *testing.T) {
	secret := func(annotations map[string]string, entry string, data []byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cosign", Annotations: annotations}, Data: map[string][]byte{entry: data}}
	}
	cases := map[string]struct {
		secret   *corev1.Secret
		unsigned error
		want     string
		verified int
	}{
		"signed":        {secret: secret(nil, "cosign.pub", cosignPub(t)), verified: 1},
		"unsigned":      {secret: secret(nil, "cosign.pub", cosignPub(t)), unsigned: &charts.UnsignedError{Chart: "karpenter", Secret: "cosign", Digest: "sha256:1"}, want: "sha256:1 is not signed: sign it with a key of secret cosign", verified: 2},
		"no Secret":     {want: "secret cosign, which spec.charts.verify names"},
		"no key":        {secret: secret(nil, "cosign.key", []byte("x")), want: "cosign.pub is missing"},
		"not for this":  {secret: secret(map[string]string{v1alpha1.NodeSyncsAnnotation: "staging"}, "cosign.pub", cosignPub(t)), want: "does not list NodeSync prod"},
		"a private key": {secret: secret(nil, "cosign.pub", []byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n")), want: "cosign.pub is not a public key in PEM form"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
				n.Spec.Charts = &v1alpha1.ChartAccess{Verify: &v1alpha1.ChartVerification{SecretRef: v1alpha1.LocalReference{Name: "cosign"}}}
			}))
			if c.secret != nil {
				if err := b.client.Create(t.Context(), c.secret); err != nil {
					t.Fatal(err)
				}
			}
			verified := 0
			b.Charts = pulled{charts: &charts.Charts{Version: "1.14.1", CRDDigest: "sha256:2", Digest: "sha256:1"}, unsigned: &c.unsigned, verified: &verified}
			p := b.pass()
			p.want.Karpenter = &render.Karpenter{Management: render.Managed, Version: "1.14.1", Namespace: "kube-system", Nodes: []string{"."}}
			p.snapshot = &render.Snapshot{Revision: "main@sha1:1"}
			for range 2 {
				_, err := p.desiredStep().Pull(t.Context())
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || fault.Classify(err).Class != fault.Terminal) {
					t.Fatalf("Pull() = %v, want %q", err, c.want)
				}
				b.clock.forward(p.sync.GetRetryInterval())
				p.now = b.clock.now()
			}
			if verified != c.verified {
				t.Errorf("verified %d times, want %d", verified, c.verified)
			}
		})
	}
}
