package reconcile

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const karpenterYAML = `apiVersion: config.plumbline.dev/v1alpha1
kind: Karpenter
cluster: {name: prod-eu, region: eu-west-1}
version: 1.14.1
`

// certificate is the certificate authority of the API server, and of the EKS cluster.
const certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func files(karpenter string) fstest.MapFS {
	return fstest.MapFS{"prod/plumbline.yaml": {Data: []byte(karpenter)}}
}

// TestPassStopsAtTheFirstError shows that a reconcile reports its first error, and writes nothing else.
func TestPassStopsAtTheFirstError(t *testing.T) {
	fixed := &v1alpha1.KarpenterStatus{Management: "Managed", Version: "1.14.1", Identity: "i", Namespace: "kube-system", Cluster: "prod-us", Region: "eu-west-1"}
	cases := map[string]struct {
		change func(*bed, *v1alpha1.NodeSync)
		reason string
		words  string
		// asks reports whether it reaches the charts.
		asks bool
	}{
		"the source":        {func(b *bed, _ *v1alpha1.NodeSync) { b.source.err = errUnreachable }, "Failed", "no route", false},
		"no plumbline.yaml": {func(b *bed, _ *v1alpha1.NodeSync) { b.source.files = fstest.MapFS{"prod/pool.yaml": {}} }, "Refused", "plumbline.yaml is not in the repository", false},
		"a broken one":      {func(b *bed, _ *v1alpha1.NodeSync) { b.source.files = files("kind: [") }, "Invalid", "prod/plumbline.yaml", false},
		"another cluster":   {func(_ *bed, n *v1alpha1.NodeSync) { n.Status.Karpenter = fixed }, "Refused", `the first install fixed cluster.name to "prod-us"`, false},
		"the charts":        {func(*bed, *v1alpha1.NodeSync) {}, "ChartFailed", "no route", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			sync := nodeSync(unchanged)
			b := newBed(t, sync.DeepCopy())
			b.source.files = files(karpenterYAML)
			c.change(b, sync)
			sync.ResourceVersion = b.read().ResourceVersion
			if err := b.client.Status().Update(t.Context(), sync); err != nil {
				t.Fatal(err)
			}
			b.reconcile()
			ready := conditions.Get(b.read(), meta.ReadyCondition)
			if ready == nil || ready.Reason != c.reason || !strings.Contains(ready.Message, c.words) {
				t.Errorf("ready: %+v", ready)
			}
			if asked := len(b.charts.asked) > 0; asked != c.asks {
				t.Errorf("asked for charts: %t", asked)
			}
		})
	}
}

// TestCloudIsAskedNowAndThen shows that a negative answer is queried again after finding.Soon, that a positive one is
// valid for a while, and that neither stops a reconcile.
func TestCloudIsAskedNowAndThen(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.source.files = files(karpenterYAML)
	b.Cluster.CertificateAuthority = []byte(certificate)
	looks := func(want int, status, reason string) {
		t.Helper()
		b.reconcile()
		got := conditions.Get(b.read(), v1alpha1.CloudVerifiedCondition)
		if b.cloud.asked != want || got == nil || string(got.Status) != status || got.Reason != reason {
			t.Errorf("asked %d times, want %d; %+v", b.cloud.asked, want, got)
		}
		if len(b.charts.asked) == 0 {
			t.Error("the pass ended")
		}
	}
	b.cloud.err = &cloud.DeniedError{Err: errUnreachable}
	looks(1, "False", "Denied")
	looks(1, "False", "Denied")
	b.clock.forward(b.pass().sync.GetRetryInterval())
	looks(2, "False", "Denied")
	b.clock.forward(b.pass().sync.GetRetryInterval())
	b.cloud.err, b.cloud.cluster = nil, cloud.Cluster{Name: "prod-eu", CertificateAuthority: []byte(certificate)}
	looks(3, "True", "Verified")
	b.clock.forward(10*time.Minute - 1)
	looks(3, "True", "Verified")
	b.clock.forward(1)
	b.cloud.cluster.CertificateAuthority = []byte("-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n")
	looks(4, "False", "CertificateAuthorityDiffers")
	b.clock.forward(-time.Hour)
	looks(5, "False", "CertificateAuthorityDiffers")
}

// TestAnAnswerOutlivesAnOvertakenStatus shows that the next reconcile uses AWS's last answer, although the status still
// has the previous one.
func TestAnAnswerOutlivesAnOvertakenStatus(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.source.files = files(karpenterYAML)
	b.inAccount(prodEU("111122223333", "ours"))
	b.reconcile()
	b.inAccount(prodEU("999988887777", "theirs"))
	b.clock.forward(10 * time.Minute)
	b.Client = overtaken(b.client)
	b.reconcile()
	if !conditions.IsTrue(b.read(), v1alpha1.CloudVerifiedCondition) {
		t.Fatal("the status was written")
	}
	b.Client = b.client
	b.reconcile()
	if got := conditions.Get(b.read(), v1alpha1.CloudVerifiedCondition); b.cloud.asked != 2 || got.Reason != cloud.ReasonAuthorityDiffers {
		t.Errorf("asked %d times; %+v", b.cloud.asked, got)
	}
}

// TestChildrenWorkForTheRepository shows that NodeSyncs of one repository share its slot for child processes.
func TestChildrenWorkForTheRepository(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	b.source.files = files(karpenterYAML)
	b.reconcile()
	if want := "https://git.example.com/acme/fleet.git"; b.charts.owner != want {
		t.Errorf("children work for %q, want %q", b.charts.owner, want)
	}
}
